"""The chain that a request walks through, on mitmproxy. What the chain needs of the world is handed in (`ports`)."""
