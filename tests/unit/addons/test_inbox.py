"""What came from a client: its order, its bound, its deadline, and what a stream gets of it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from support.waits import HANG_SECONDS

from addons.front.channel import Channel
from addons.front.inbox import Inbox
from addons.front.reader import RequestReader
from addons.front.wire import Plain
from addons.streams import ClientLeft


class Talkative(Plain):  # type: ignore[misc]  # only what it has to say differs
    """A wire that always has something to say."""

    def pending(self) -> bytes:
        return b"!"


def run(work: Callable[[Inbox], Awaitable[None]]) -> None:
    async def main() -> None:
        inbox = Inbox()
        async with asyncio.timeout(HANG_SECONDS):
            await work(inbox)
        inbox.close()

    asyncio.run(main())


def test_what_came_is_taken_in_its_order_and_the_end_last() -> None:
    """Also what came before the end was known of."""

    async def work(inbox: Inbox) -> None:
        for piece in (b"a", b"b"):
            assert inbox.received(piece) == b""
        inbox.end()
        assert [await inbox.take(), await inbox.take()] == [b"a", b"b"]
        for _ in range(2):
            with pytest.raises(ClientLeft):
                await inbox.take()

    run(work)


@pytest.mark.parametrize("ends", [False, True])
def test_who_waits_is_told(*, ends: bool) -> None:
    """Of bytes, and of the end."""

    async def work(inbox: Inbox) -> None:
        inbox.arm(5)
        taking = asyncio.get_running_loop().create_task(inbox.take())
        await asyncio.sleep(0)
        if ends:
            inbox.end()
            with pytest.raises(ClientLeft):
                await taking
        else:
            inbox.received(b"a")
            inbox.received(b"b")
            assert await taking == b"a"

    run(work)


def test_who_is_cancelled_is_told_nothing() -> None:
    """What comes in the same moment is kept."""

    async def work(inbox: Inbox) -> None:
        inbox.arm(5)
        taking = asyncio.get_running_loop().create_task(inbox.take())
        await asyncio.sleep(0)
        taking.cancel()
        await asyncio.sleep(0)
        inbox.received(b"a")
        assert await inbox.take() == b"a"

    run(work)


def test_nobody_waits_without_a_deadline() -> None:
    """Who forgot to set one is late."""

    async def work(inbox: Inbox) -> None:
        with pytest.raises(TimeoutError):
            await inbox.take()

    run(work)


def test_a_deadline_is_not_moved_by_what_comes() -> None:
    """A byte now and then buys no time."""

    async def work(inbox: Inbox) -> None:
        loop = asyncio.get_running_loop()
        inbox.arm(0.1)

        def drip() -> None:
            nonlocal dripping
            inbox.received(b"a")
            dripping = loop.call_later(0.03, drip)

        dripping = loop.call_soon(drip)

        async def take_all() -> None:
            while True:
                await inbox.take()

        with pytest.raises(TimeoutError):
            await take_all()
        dripping.cancel()

    run(work)


def test_a_later_deadline_counts_from_when_it_is_set() -> None:
    """The timer of the one before fires, and is nothing."""

    async def work(inbox: Inbox) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        inbox.arm(0.05)
        inbox.arm(0.2)
        with pytest.raises(TimeoutError):
            await inbox.take()
        assert loop.time() - began > 0.19

    run(work)


def test_a_deadline_that_passed_while_nobody_waited_is_over() -> None:
    """While the chain is asked there is none: whoever waits next sets it anew."""

    async def work(inbox: Inbox) -> None:
        inbox.arm(0.01)
        await asyncio.sleep(0.05)
        inbox.arm(5)
        asyncio.get_running_loop().call_later(0.01, inbox.received, b"a")
        assert await inbox.take() == b"a"

    run(work)


class Clock:
    """A loop's timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pending: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[[], None]) -> "Timer":
        self.pending.append((at, call))
        return Timer(self, self.pending[-1])

    def go(self, now: float) -> None:
        self.now = now
        for due in [one for one in self.pending if one[0] <= now]:
            self.pending.remove(due)
            due[1]()


class Timer:
    """One of them."""

    def __init__(self, clock: Clock, one: tuple[float, Callable[[], None]]) -> None:
        self._clock, self._one = clock, one

    def cancel(self) -> None:
        if self._one in self._clock.pending:
            self._clock.pending.remove(self._one)


def test_timers_do_not_add_up() -> None:
    """A client whose heads come in pieces moves the deadline to and fro: there is one timer, and in time for it."""

    async def work(inbox: Inbox) -> None:
        clock = Clock()
        inbox._loop = clock  # type: ignore[assignment]  # stands in for one
        inbox.arm(75)
        for turn in range(2000):
            clock.go(turn * 0.5)
            inbox.arm(10 if turn % 2 else 75)
            assert len(clock.pending) == 1
            assert clock.pending[0][0] <= inbox._deadline
        inbox.close()
        assert clock.pending == []

    run(work)


def test_most_requests_need_no_timer_of_their_own() -> None:
    """One that is set already does for a deadline behind it."""

    async def work(inbox: Inbox) -> None:
        clock = Clock()
        inbox._loop = clock  # type: ignore[assignment]  # stands in for one
        inbox.arm(75)
        first = clock.pending[0]
        for turn in range(100):
            clock.go(turn * 0.5)
            inbox.arm(75)
            assert clock.pending == [first]
        clock.go(75)
        assert [at for at, _ in clock.pending] == [124.5]

    run(work)


def test_what_is_held_is_bounded() -> None:
    """`full` says that nothing more should be read, and `room` waits until it may."""

    async def work(inbox: Inbox) -> None:
        inbox.received(b"a")
        assert not inbox.full
        inbox.received(b"b" * 256 * 1024)
        assert inbox.full
        waiting = asyncio.get_running_loop().create_task(inbox.room())
        await inbox.take()
        await asyncio.sleep(0)
        assert inbox.full
        assert not waiting.done()
        await inbox.take()
        assert not inbox.full
        await waiting

    run(work)


def test_what_was_taken_and_waits_is_held() -> None:
    """A reader that has taken requests ahead holds them for the connection, whatever held them meanwhile."""

    async def work(inbox: Inbox) -> None:
        inbox.ahead(256 * 1024)
        assert inbox.full
        inbox.channel = Channel(Plain(), RequestReader(max_head=65536), complete=True)
        inbox.channel.received(b"x" * 256 * 1024)
        waiting = asyncio.get_running_loop().create_task(inbox.room())
        inbox.channel.done()
        inbox.channel = None
        inbox.ahead(256 * 1024 + 1)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        inbox.ahead(256 * 1024 - 1)
        assert not inbox.full
        await waiting

    run(work)


def test_what_came_before_a_stream_is_handed_over_first() -> None:
    """Data in its order, an end as an end; what the wire has to say is told."""

    async def work(inbox: Inbox) -> None:
        channel = Channel(Talkative(), None, complete=False)
        inbox.received(b"a")
        inbox.received(b"b")
        inbox.end()
        assert inbox.divert(channel) == b"!!"
        assert [await channel.read(), await channel.read(), await channel.read()] == [b"a", b"b", b""]

    run(work)


def test_what_is_handed_over_may_need_no_word_from_the_wire() -> None:
    """Plain bytes are only passed on; the end is not there yet."""

    async def work(inbox: Inbox) -> None:
        channel = Channel(Plain(), None, complete=False)
        inbox.received(b"a")
        assert inbox.divert(channel) == b""
        assert await channel.read() == b"a"
        assert not channel._complete

    run(work)


def test_what_comes_while_a_stream_runs_goes_to_it() -> None:
    """Not to the layer, which waits; the end too, and the bound is the stream's."""

    async def work(inbox: Inbox) -> None:
        channel = Channel(Talkative(), None, complete=False)
        assert inbox.divert(channel) == b""
        assert inbox.received(b"a" * 256 * 1024) == b"!"
        assert inbox.full
        waiting = asyncio.get_running_loop().create_task(inbox.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        assert len(await channel.read()) == 256 * 1024
        await waiting
        inbox.end()
        assert await channel.read() == b""
        inbox.channel = None
        with pytest.raises(ClientLeft):
            await inbox.take()

    run(work)
