"""A worker: the program in its place at the supervisor, which it obeys, and without which it ends.

What the supervisor asks for is done one after another, but for `hurry`, which counts at once. SIGTERM ends it as it
ends the whole program; SIGINT and SIGHUP, which a terminal sends to all, it leaves to the supervisor.
"""

import asyncio
import logging
import mmap
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from addons.ports import Flights
from proxy.fronts import Fronts
from proxy.program import Change, Program
from proxy.reload import Refused, ReloadRefused, Result, why_refused
from proxy.seat import part_of
from proxy.settings.fingerprint import fingerprint
from proxy.settings.model import Listen, Settings, TcpListen
from proxy.sockets import Listener
from proxy.tasks import spawn
from proxy.workers.ledger import Ledger
from proxy.workers.line import Do, LineBroken, Message, receive, send

log = logging.getLogger(__name__)

UP_BYTES: Final = 2


def key(setting: str, listen: Listen) -> str:
    """The name of a listener in a message."""
    return f"{setting} {listen}"


@final
class WorkerSeat:
    """Implements `proxy.seat.Seat`.

    Args:
        end: of the line to the supervisor.
        load: reads the settings; blocks.
        up: memory in which the supervisor counts the workers that serve.
        last: the last reload before this worker. began_ns: when the settings that it begins with were read.
    """

    def __init__(
        self,
        *,
        end: socket.socket,
        of: int,
        fronts: Fronts,
        ledger: Ledger,
        load: Callable[[], Settings],
        up: mmap.mmap,
        last: Result | None,
        refused: Refused | None,
        began_ns: int,
    ) -> None:
        self.of = of
        # Names in the file system are the supervisor's: without its inode a listener does not remove one.
        self.fronts = fronts.each(lambda listener: replace(listener, made=None))
        self.flights: Flights = ledger
        self._ledger = ledger
        self._end = end
        self._load = load
        self._up = up
        self._last, self._refused, self._began_ns = last, refused, began_ns
        self._offered: dict[str, socket.socket] = {}
        self._change: tuple[int, Change] | None = None
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._watch: asyncio.Task[None] | None = None

    @property
    def up(self) -> int:
        """How many workers serve now."""
        return int.from_bytes(self._up[:UP_BYTES], "little")

    def ready(self, program: Program) -> None:
        """Everything listens."""
        self._say(program, Message(do=Do.READY))

    def failed(self, problems: tuple[str, ...]) -> None:
        """It cannot start."""
        send(self._end, Message(do=Do.FAILED, lines=problems))

    def freeze(self) -> None:
        """See `proxy.seat.Seat`."""
        self._ledger.freeze()

    async def serve(self, program: Program) -> None:
        """Do what the supervisor asks for, until cancelled; without a supervisor, end the program."""
        program.reloads.last, program.reloads.began_ns = self._last, self._began_ns
        if self._refused is not None:
            await program.reloads.blame(self._refused)
        # The reader outlasts this task: `hurry` counts while the program ends.
        asyncio.get_running_loop().add_reader(self._end, self._heard, program)
        try:
            while True:
                await self._obey(program, await self._messages.get())
        finally:
            if self._watch is not None:
                self._watch.cancel()

    def _heard(self, program: Program) -> None:
        try:
            message = receive(self._end)
        except LineBroken:
            asyncio.get_running_loop().remove_reader(self._end)
            log.warning("the supervisor is gone; finishing what runs")
            program.stop()
            return
        if message is None:
            return
        if message.do is Do.HURRY:
            program.stop(hurry=True)
        else:
            self._messages.put_nowait(message)

    def _say(self, program: Program, message: Message) -> None:
        try:
            send(self._end, message)
        except LineBroken as broken:
            log.error("the supervisor cannot be told `%s`: %s", message.do, broken)  # noqa: TRY400 - one line is enough
            program.stop()

    async def _obey(self, program: Program, message: Message) -> None:
        match message.do:
            case Do.SOCKETS:
                self._offered.update(zip(message.names, message.sockets, strict=True))
            case Do.PREPARE:
                await self._prepare(program, message)
            case Do.COMMIT:
                await self._commit(program, message)
            case Do.ABORT:
                self._let_go(program)
                program.reloads.began_ns = message.began_ns
                files = frozenset(map(Path, message.files))
                await program.reloads.ended(Refused(problems=message.lines, blamed=files))
                self._say(program, Message(do=Do.ENDED, round=message.round))
            case Do.REOPEN:
                program.reopen()
            case Do.WATCH:
                ask = Message(do=Do.RELOAD)
                self._watch = spawn(program.watch(lambda: self._say(program, ask)), "watch")
            case _:
                log.error("`%s` is nothing that a supervisor asks for", message.do)

    async def _prepare(self, program: Program, message: Message) -> None:
        self._let_go(program, offered=False)
        try:
            settings = await asyncio.to_thread(self._load)
            change = await program.prepare(part_of(settings, self.of), self._take)
        except Exception as error:
            refused = why_refused(error)
            files = tuple(map(str, refused.blamed))
            answer = Message(do=Do.REFUSED, round=message.round, lines=refused.problems, files=files)
        else:
            self._change = message.round, change
            answer = Message(do=Do.PREPARED, round=message.round, mark=fingerprint(settings))
        self._say(program, answer)

    def _take(self, listen: Listen, *, setting: str, endpoint: str | None = None, broker: bool = False) -> Listener:
        """A listener of the supervisor's in place of one of our own."""
        sock = self._offered.pop(key(setting, listen), None)
        if sock is None:
            raise ReloadRefused(f"`{setting}` changed while the settings were read; reload once more")
        address = TcpListen(host=listen.host, port=sock.getsockname()[1]) if isinstance(listen, TcpListen) else listen
        return Listener(
            setting=setting, endpoint=endpoint, asked=listen, address=address, sock=sock, made=None, broker=broker
        )

    async def _commit(self, program: Program, message: Message) -> None:
        change, self._change = self._change, None
        if change is None or change[0] != message.round:
            log.error("a reload was decided that was not prepared here; this worker ends")
            program.stop()
            return
        try:
            program.commit(change[1])
        except Exception as error:
            # The others have changed: another worker, with what is in force, takes its place.
            log.error("%s in a reload that was prepared; this worker ends", type(error).__name__)  # noqa: TRY400 - its text may hold a value
            program.stop()
            return
        self._let_go(program)
        program.reloads.began_ns = message.began_ns
        await program.reloads.ended(None)
        self._say(program, Message(do=Do.ENDED, round=message.round))

    def _let_go(self, program: Program, *, offered: bool = True) -> None:
        change, self._change = self._change, None
        if change is not None:
            program.abort(change[1])
        if offered:
            for sock in self._offered.values():
                sock.close()
            self._offered.clear()
