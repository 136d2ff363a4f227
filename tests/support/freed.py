"""Whether what a connection held is free once it has ended, without a collection."""

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from addons.exchange import Exchange
from addons.front.channel import Channel
from addons.front.inbox import Inbox
from addons.front.layer import FrontLayer
from addons.front.reader import RequestReader
from addons.front.stream import Stream
from addons.front.wire import Tls
from proxy.connection import ClientConnection
from proxy.upstream.answer import AnswerReader
from proxy.upstream.connection import Connection

_OF_A_CONNECTION = (
    AnswerReader,
    Channel,
    ClientConnection,
    Connection,
    Exchange,
    FrontLayer,
    Inbox,
    RequestReader,
    Stream,
    Tls,
)


@pytest.fixture
def freed() -> Iterator[None]:
    """Fail a test behind which something of a connection is in a circle of references."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = Counter(type(one).__name__ for one in gc.garbage if isinstance(one, _OF_A_CONNECTION))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left, "a circle of references keeps them"
