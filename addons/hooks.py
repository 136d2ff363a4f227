"""What the fronts ask the chain, each time about one exchange. An addon answers by a method of the hook's name."""

from enum import StrEnum
from typing import final


@final
class Hook(StrEnum):
    """The questions.

    Attributes:
        CONNECT: a CONNECT head was read: may a tunnel to an endpoint be opened, to be intercepted?
        TUNNEL: an opaque tunnel is open: carry it until it ends.
        HEAD: the head of a request with a body was read: may the body be read, and how much of it?
        REQUEST: a request is complete, or refused: answer and record it.
    """

    CONNECT = "broker_connect"
    TUNNEL = "broker_tunnel"
    HEAD = "broker_head"
    REQUEST = "broker_request"
