"""The fronts: how a client reaches the chain. Layers that mitmproxy runs, one hook a request."""
