"""The proxy in a process of its own, forked before anything is read: the one that starts the program holds no secret
but those of its environment, and neither can be looked into.

It has a session of its own, so that no key of the terminal reaches it, and ends with the process that forked it.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from proxy.client_env.addresses import AddressRefused, Client, Listening, addresses
from proxy.run.copies import copies
from proxy.run.messages import Ready, Tally
from proxy.run.refused import IsolationRefused
from proxy.run.served import LOG, Hidden, NothingToServe, hidden, references, served, unfound
from proxy.secrets.source import ReferenceInvalid, SecretUnreadable, parse_source
from proxy.settings.model import Listen, TcpListen
from proxy.undumpable import die_with_parent

if TYPE_CHECKING:
    from proxy.program import Program
    from proxy.settings.model import Settings

GRACE_SECONDS: Final = 5.0
"""What requests still have when the program has ended: nobody waits for them but what it left behind."""
_OF_THE_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)
_FIRST_PORT: Final = 29170
_MAX_LINE: Final = 4 * 1024 * 1024


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How the proxy is run.

    Attributes:
        load: reads the settings; blocks.
        config: the settings file, where there is one.
        box: the box that the program is; None where there are none.
        sockets: the directory for sockets of an isolated program; None: ports of loopback.
        work: the working directory of an isolated program; None where it is not isolated.
        terse: refusals leave their detail out. verbose: more messages.
    """

    load: "Callable[[], Settings]"
    config: Path | None
    box: str | None = None
    sockets: Path | None = None
    work: Path | None = None
    terse: bool = False
    verbose: bool = False


@final
class Beside:
    """The proxy's process, as the one that forked it sees it."""

    def __init__(self, wanted: Wanted) -> None:
        parent, own = os.getpid(), os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_TERMINAL)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(own[0])
            _be_the_proxy(wanted, parent, own[1], before)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(own[1])
        self._messages = own[0]
        self._received = b""
        self.status: int | None = None

    def ready(self) -> Ready | None:
        """Wait until it serves. None: it has ended, and said why."""
        line = self._line()
        return None if line is None else Ready.of(line)

    def tally(self) -> Tally | None:
        """What it decided, once it has ended. None: it did not end by itself."""
        line = self._line()
        return None if line is None else Tally.of(line)

    def poll(self) -> bool:
        """Whether it has ended; its exit code is then in `status`."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self.status is None:  # until it is waited for, its number is not used again
            os.kill(self.pid, number)

    def _line(self) -> bytes | None:
        while b"\n" not in self._received and len(self._received) < _MAX_LINE:
            data = os.read(self._messages, 65536)
            if not data:
                return None
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line


def _be_the_proxy(wanted: Wanted, parent: int, messages: int, mask: set[int]) -> None:
    """What the child does, and then it ends: it never returns into the code of the one that forked it."""
    code = 1
    try:
        die_with_parent(parent)
        os.setsid()
        for number in _OF_THE_TERMINAL:
            signal.signal(number, signal.SIG_IGN)  # until the program takes them
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)  # standard output is the program's
        code = _serve(wanted, messages)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException as error:  # told by its type: a text could hold what was read
        sys.stderr.write(f"error: the proxy failed with {type(error).__name__}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def _serve(wanted: Wanted, messages: int) -> int:
    from grants.problems import Invalid
    from proxy import logs
    from proxy.loop import run_on_loop
    from proxy.program import Program, Running
    from proxy.run.commands import clean
    from proxy.run.hold import hold
    from proxy.sockets import ListenFailed
    from proxy.state import StartRefused

    logs.configure(verbose=wanted.verbose)
    tally = Tally()
    serving = False

    def tell(program: Program) -> None:
        nonlocal serving
        _tell(program, wanted, _with_copies(secret, program, settings, environment), messages)
        serving = True

    try:
        settings = wanted.load()
        secret = hidden(settings, wanted.config, os.environ)
        environment = dict(os.environ)
        if wanted.work is not None:
            hold(settings, wanted.config, secret, wanted.work, os.environ)
            clean(os.environ, secret.variables, settings.directory.absolute(), wanted.work)
        running = Running(
            grace=GRACE_SECONDS,
            say=lambda line: print(line, file=sys.stderr),  # noqa: T201 - our own line, and click is not needed
            recorded=tally.count,
        )
        program = Program(served(settings, sockets=wanted.sockets), terse=wanted.terse, running=running)
        run_on_loop(program.run(tell))
    except Invalid as invalid:
        sys.stderr.write("".join(f"{problem}\n" for problem in invalid.problems))
        return 1
    except (StartRefused, ListenFailed, NothingToServe, AddressRefused, IsolationRefused) as refused:
        sys.stderr.write("".join(f"error: {line}\n" for line in str(refused).splitlines()))
        return 1
    finally:
        if serving:
            os.write(messages, tally.line())
    return 0


def _with_copies(secret: Hidden, program: "Program", settings: "Settings", environment: Mapping[str, str]) -> Hidden:
    """What the program may not see, with the variables that hold what comes from a file or a command; those are told.
    What is not served, as the broker's, is only read where it is a file."""
    values = [*program.services.values()]
    for text in references(settings):
        if text.startswith("file:"):
            try:
                values.append(parse_source(text, settings.directory).read())
            except (SecretUnreadable, ReferenceInvalid):  # what is served has been read
                continue
    also = copies(environment, values, secret.variables)
    for name in also:
        sys.stderr.write(f"warning: `{name}` is left out too: it holds a secret that comes from a file or a command\n")
    sys.stderr.flush()
    return replace(secret, variables=secret.variables | frozenset(also))


def _tell(program: "Program", wanted: Wanted, secret: Hidden, messages: int) -> None:
    """Say where everything listens, now that it does."""
    from proxy.client_env.trust import write_trust

    settings = program.settings
    listening, forwards = _listening(program)
    ready = Ready(
        addresses=addresses(settings, listening, _client(settings, wanted.box)),
        forwards=forwards,
        hidden=secret,
        trust=write_trust(settings.state, program.ca.pem.encode()),
        state=settings.state,
        log=settings.audit.path or settings.state / LOG,
    )
    if notice := unfound(settings, wanted.box):
        sys.stderr.write(f"notice: {notice}\n")
        sys.stderr.flush()
    os.write(messages, ready.line())


def _listening(program: "Program") -> tuple[Listening, tuple[tuple[int, Path], ...]]:
    """Where the program finds everything. A socket has a port of its loopback, where it is alone, in front."""
    forwards: list[tuple[int, Path]] = []

    def seen(listen: Listen) -> Listen:
        if isinstance(listen, TcpListen):
            return listen
        forwards.append((_FIRST_PORT + len(forwards), listen.path))
        return TcpListen(host="127.0.0.1", port=forwards[-1][0])

    fronts = program.fronts
    proxy = None if fronts.proxy is None else seen(fronts.proxy.address)
    endpoints = {str(listener.endpoint): seen(listener.address) for listener in fronts.endpoints}
    return Listening(proxy=proxy, endpoints=endpoints), tuple(forwards)


def _client(settings: "Settings", name: str | None) -> Client:
    if name is None:
        return Client()
    box = next((box for box in settings.boxes if box.name == name), None)
    if box is None:
        named = ", ".join(f"`{box.name}`" for box in settings.boxes) or "none"
        raise AddressRefused(f"`{name}` is no box; the settings have {named}")
    try:
        token = parse_source(box.token, settings.directory).read()
    except SecretUnreadable as unreadable:
        raise AddressRefused(f"box `{name}`: {unreadable}") from None
    return Client(box=box, token=token.reveal().decode("utf-8", "replace"))
