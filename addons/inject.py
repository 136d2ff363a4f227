"""Attach by host: fields that are set here, for clients that hold no reference at all.

They go to the upstream's own origin only, and on a judged hop to an origin that its operation names.
"""

from dataclasses import replace

from grants.framing import folded
from grants.message import Fields, Outgoing, RequestHead


def without_injected(head: RequestHead, inject: Fields) -> RequestHead:
    """The head without the fields that are injected: what the client sent there, or what reads so, is dropped."""
    if not inject:
        return head
    names = frozenset(folded(name) for name, _ in inject)
    return replace(head, fields=tuple([pair for pair in head.fields if folded(pair[0]) not in names]))


def with_injected(request: Outgoing, inject: Fields) -> Outgoing:
    """The request with the injected fields, references still in them."""
    return replace(request, fields=request.fields + inject) if inject else request
