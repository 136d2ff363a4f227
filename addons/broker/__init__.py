"""The front of the broker protocol: its routes, over the same chain, engine and decision log as the other fronts.

`route` is the one step of the chain; it finds what a request needs, who asks and whether the last report allows it, and
hands over to the part that answers the route. A part answers itself, or says how the request is relayed or judged.
"""
