"""Attach by host: fields that are set here, for clients that hold no reference at all.

They go to the upstream's own origin only, and on a judged hop to an origin that its operation names.
"""

from dataclasses import replace

from grants.message import Fields, Outgoing, RequestHead


def without_injected(head: RequestHead, inject: Fields) -> RequestHead:
    """The head without the fields that are injected: what the client sent there is dropped."""
    if not inject:
        return head
    names = frozenset(name.lower() for name, _ in inject)
    return replace(head, fields=tuple([pair for pair in head.fields if pair[0].lower() not in names]))


def with_injected(request: Outgoing, inject: Fields) -> Outgoing:
    """The request with the injected fields, references still in them."""
    return replace(request, fields=request.fields + inject) if inject else request
