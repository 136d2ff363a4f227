"""A client's side of a stream: what comes, what is sent, and how each side is held back."""

import asyncio
from collections.abc import Coroutine

import pytest
from support.waits import HANG_SECONDS

from addons.front.channel import Channel
from addons.front.reader import RequestReader
from addons.front.wire import Plain, TlsFailed
from addons.pump import read_within
from addons.streams import ClientLeft

HEAD = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n"


class Broken(Plain):  # type: ignore[misc]  # the wire's own methods are what is broken
    """A wire that can neither be read nor written."""

    def receive(self, data: bytes) -> bytes:
        raise TlsFailed("BROKEN")

    def send(self, data: bytes) -> bytes:
        raise TlsFailed("BROKEN")


class Parting(Plain):  # type: ignore[misc]  # as above
    """A wire that has something to say at its end."""

    def finish(self) -> bytes:
        return b"bye"


class Sent:
    """What a connection was given to send."""

    def __init__(self) -> None:
        self.data = b""
        self.ended = False

    async def output(self, data: bytes) -> None:
        self.data += data

    def end(self) -> None:
        self.ended = True


def run(work: Coroutine[None, None, None]) -> None:
    """Run a test's coroutine, bounded."""

    async def bounded() -> None:
        async with asyncio.timeout(HANG_SECONDS):
            await work

    asyncio.run(bounded())


def reading(complete: bool = False) -> tuple[Channel, RequestReader]:
    """A channel whose reader is at the body of `HEAD`."""
    reader = RequestReader(max_head=1000)
    reader.feed(HEAD)
    reader.next_event()
    reader.stream_body()
    return Channel(Plain(), reader, complete=complete), reader


def test_a_body_is_read_piece_by_piece() -> None:
    """The body ends where its framing says; what is behind it stays for the next request."""

    async def work() -> None:
        channel, reader = reading()
        channel.received(b"ab")
        assert await channel.read() == b"ab"
        assert channel.final
        channel.received(b"cdGET")
        assert channel.received(b" /") == b""
        assert await channel.read() == b"cd"
        assert await channel.read() == b""
        assert not channel.final
        assert reader.take_rest() == b"GET /"

    run(work())


def test_a_reader_waits_for_what_comes() -> None:
    """`read` returns as soon as something is there."""

    async def work() -> None:
        channel = Channel(Plain(), None, complete=False)
        asyncio.get_running_loop().call_later(0.01, channel.received, b"x")
        assert await channel.read() == b"x"

    run(work())


@pytest.mark.parametrize("how", ["ended", "gone", "broken"])
def test_a_request_that_ends_early_is_a_client_that_left(how: str) -> None:
    """The rest of a body is never made up."""

    async def work() -> None:
        channel, _ = reading()
        if how == "broken":
            channel = Channel(Broken(), None, complete=True)
            channel.received(b"x")
        else:
            getattr(channel, how)()
        await channel.left()
        if how == "broken":
            assert await channel.read() == b""
        else:
            with pytest.raises(ClientLeft):
                await channel.read()
        with pytest.raises(ClientLeft):
            await channel.write(b"x")
        with pytest.raises(ClientLeft):
            await channel.finish()

    run(work())


def test_the_end_of_a_raw_stream_is_an_end() -> None:
    """What came before it is read first; the other direction goes on."""

    async def work() -> None:
        sent = Sent()
        channel = Channel(Parting(), None, complete=False)
        channel.attach(sent.output, sent.end)
        channel.received(b"x")
        channel.ended()
        assert await channel.read() == b"x"
        assert await channel.read() == b""
        await channel.write(b"y")
        await channel.finish()
        assert (sent.data, sent.ended) == (b"ybye", True)

    run(work())


def test_a_wire_that_breaks_while_it_is_written_is_a_client_that_left() -> None:
    """TLS errors are the client's end, whatever they are."""

    async def work() -> None:
        channel = Channel(Broken(), None, complete=False)
        channel.attach(Sent().output, Sent().end)
        with pytest.raises(ClientLeft):
            await channel.write(b"x")

    run(work())


@pytest.mark.parametrize("complete", [False, True])
def test_a_client_is_read_no_further_while_enough_is_held(complete: bool) -> None:
    """Of a raw stream until it is read, of requests sent ahead until this one is answered."""

    async def work() -> None:
        channel, _ = reading(complete=True) if complete else (Channel(Plain(), None, complete=False), None)
        channel.received(b"x" * 300_000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await channel.room()
        if complete:
            channel.done()
        else:
            await channel.read()
        await channel.room()

    run(work())


@pytest.mark.parametrize("rest", [b"", b"frame"])
def test_a_request_becomes_a_raw_stream(rest: bytes) -> None:
    """After a 101 what stood behind the head belongs to the new protocol."""

    async def work() -> None:
        reader = RequestReader(max_head=1000)
        reader.feed(b"GET / HTTP/1.1\r\n\r\n" + rest)
        reader.next_event()
        channel = Channel(Plain(), reader, complete=True)
        channel.become_raw()
        channel.received(b"more")
        assert await channel.read() == (rest or b"more")
        channel.become_raw()

    run(work())


def test_a_side_that_says_nothing_for_too_long_has_left() -> None:
    """An upload that stands still holds no place for ever."""

    async def work() -> None:
        with pytest.raises(ClientLeft):
            await read_within(Channel(Plain(), None, complete=False), 0.01)

    run(work())


def test_the_end_of_a_chunked_body_may_come_alone() -> None:
    """The last chunk carries nothing."""

    async def work() -> None:
        reader = RequestReader(max_head=1000)
        reader.feed(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        reader.next_event()
        reader.stream_body()
        channel = Channel(Plain(), reader, complete=False)
        channel.received(b"2\r\nab\r\n")
        assert await channel.read() == b"ab"
        channel.received(b"0\r\n\r\n")
        assert await channel.read() == b""

    run(work())
