"""The fronts: how a client reaches the chain. Layers of mitmproxy, each run as one coroutine that asks the chain."""
