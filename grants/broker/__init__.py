"""The broker protocol, version 1, as pure values: what a box reported, what a request needs, what is refused and why.

No module here reads a socket, a clock or a database. Each takes bytes or parsed JSON and gives a value.
Source: "Broker Protocol" in the specification.
"""
