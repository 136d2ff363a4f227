"""An isolated program, from outside: started in namespaces of its own, told signals, waited for (Linux).

bubblewrap makes the namespaces where it is installed, else util-linux's `unshare` does, with mounts of our own. Both
are looked for where the program could not have put something of that name.
"""

import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, final

from proxy.run import bubblewrap, seccomp, unshare
from proxy.run.code import hold_code, trees
from proxy.run.configuration import copied
from proxy.run.homes import hold_trees, homes
from proxy.run.inside import GROUP
from proxy.run.messages import Ready
from proxy.run.mounts import Mount
from proxy.run.program import Signals, Started, not_started, start
from proxy.run.refused import IsolationRefused
from proxy.run.streams import Streams
from proxy.run.terminal import Terminal
from proxy.run.view import Wish, hold_work, view
from proxy.run.visible import differs, not_seen
from proxy.run.ways import leads_into, links_in, real, under

TOOLS: Final = ("bwrap", "unshare")
"""What can make the namespaces, the better one first."""

_INSIDE: Final = Path("/run/grantproxy")
_HELD: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_START_SECONDS: Final = 20.0
_UNFILTERED: Final = (
    "warning: the system calls of {} are not known, so the program's are not filtered: it may use the user's keys and "
    "sockets of any family, and leave set-user-ID files in the working directory\n"
)
_REMEDY: Final = (
    "allow user namespaces (kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, or the "
    "container's security options), or leave --isolate out and run this in a sandbox of your own"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """How the program is isolated.

    Attributes:
        tool: the program that makes the namespaces. bubble: it is bubblewrap.
        work: the working directory.
        home: the user's home.
        show: further paths that are shown, read-only; real.
        named: the home, the working directory and `show` as they were written, links and all.
        ours: our own code, which the program may not change.
    """

    tool: str
    bubble: bool
    work: Path
    home: Path
    ours: tuple[Path, ...]
    show: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()


def plan(base: Mapping[str, str], show: Sequence[Path]) -> Isolation:
    """See whether the program can be isolated here, before anything is started.

    Raises:
        IsolationRefused: it cannot; why, and what helps.
    """
    if sys.platform != "linux":
        raise IsolationRefused(f"--isolate needs the namespaces of Linux, and this is {sys.platform}; leave it out")
    work = Path(os.path.realpath(Path.cwd()))
    known = homes()
    for home in known:
        hold_work(work, home, trees())
    hold_trees(trees(), known)
    ours = hold_code(work, base)
    names = [name for name in base.get("PATH", os.defpath).split(os.pathsep) if name[:1] == "/"]
    search = os.pathsep.join(name for name in names if not leads_into(Path(name), work))
    written = tuple(Path(os.path.abspath(path.expanduser())) for path in show)
    shown = tuple(map(real, written))
    for path in written:
        if (link := links_in(path, work)) is not None:
            raise IsolationRefused(
                f"`{path}` is shown by the link `{link}`, which is in the working directory and which the program "
                "could lead elsewhere for the next start; show what it leads to"
            )
    for path in shown:
        if under(Path("/proc"), path) or any(under(path, Path(place)) for place in ("/proc", "/dev")):
            raise IsolationRefused(
                f"`{path}` cannot be shown, as there is one of the program's own; show what it needs"
            )
    here = Path(base.get("PWD", work))
    named = (Path.home(), *([here] if here.is_absolute() and real(here) == work else []), *written)
    for name in TOOLS:
        if (tool := shutil.which(name, path=search)) is not None and not leads_into(Path(tool), work):
            return Isolation(
                tool=tool,
                bubble=name == "bwrap",
                work=work,
                home=known[0],
                ours=ours,
                show=shown,
                named=named,
            )
    raise IsolationRefused(
        "--isolate needs bubblewrap (`bwrap`) or util-linux (`unshare`), and neither is on PATH; "
        "install bubblewrap, or leave --isolate out and run this in a sandbox of your own"
    )


@final
class Isolated(Started):
    """The program, behind the tool that isolates it."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        control: socket.socket,
        terminal: Terminal | None,
        streams: Streams,
    ) -> None:
        super().__init__(process)
        self._control = control
        self._terminal = terminal
        self._streams = streams
        self._given_up = False

    def poll(self) -> int | None:
        """As of any program, once what it said is out; one that has stopped has us stopped too, where it shares our
        terminal."""
        if self._terminal is not None:
            self._terminal.follow(self._process.pid)
        code = super().poll()
        if code is None:
            return None
        self.leave()
        return code if self._streams.finished() or self._given_up else None

    def end(self, seconds: float) -> None:
        """As of any program."""
        super().end(seconds)
        self.leave()
        self._streams.finish(seconds)

    def leave(self) -> None:
        """Have the terminal back."""
        if self._terminal is not None:
            self._terminal.take(self._process.pid)

    def signal(self, number: int, *, terminal: bool) -> None:
        """Pass a signal on: the program is in no group of ours. After its end, one ends the wait for who reads it."""
        if number in _HELD and self._process.returncode is not None:
            self._given_up = True
            return
        with contextlib.suppress(OSError):  # it has ended, which shows elsewhere
            self._control.send(bytes([number | GROUP if terminal else number]), socket.MSG_DONTWAIT)


def start_isolated(
    isolation: Isolation,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    ready: Ready,
    signals: Signals,
    *,
    place: Path,
) -> Isolated:
    """Start the program.

    Args:
        place: a directory of the user's own that is there as long as the program is.

    Raises:
        IsolationRefused: the machine does not let us.
        NotStarted: it cannot be executed in there.
    """
    session = not _may_share_terminal()
    forwards = [(port, path, _INSIDE / f"{port}.sock") for port, path in ready.forwards]
    script = Path(__file__).with_name("inside.py")
    extra = [(script, _INSIDE / "inside.py"), *((a, b) for _, a, b in forwards)]
    mounts = view(_wish(isolation, ready, extra, copied(place / "etc")))
    if (other := differs(arguments[0], environment.get("PATH", os.defpath), mounts)) is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{other}\n")
    machine = os.uname().machine
    if (code := seccomp.program(machine)) is None:
        with contextlib.suppress(OSError):
            sys.stderr.write(_UNFILTERED.format(machine))
    streams = Streams()
    ours, theirs = socket.socketpair()
    out, err = os.pipe()
    kept = os.dup(streams.stderr)
    run = [
        *(sys.executable, "-I", "-S", str(_INSIDE / "inside.py")),
        *(str(theirs.fileno()), str(kept), "own" if session else "shared", "-" if code is None else code.hex()),
        *(f"{port}={inside}" for port, _, inside in forwards),
        *("--", *arguments),
    ]
    if isolation.bubble:
        nested = bubblewrap.can_forbid_nesting(_version(isolation.tool))
        tool = partial(bubblewrap.arguments, isolation.tool, mounts, isolation.work, session=session)
        run = [*tool(nested=nested, stderr=kept), *run]
    else:
        run = [*unshare.arguments(isolation.tool, mounts, isolation.work, session=session), *run]
    terminal = None if session else Terminal()
    try:
        process = start(
            run,
            environment,
            signals,
            prepare=partial(_prepare, terminal),
            descriptors=(theirs.fileno(), kept),
            streams=(streams.stdin, streams.stdout, err),
        )
    finally:
        streams.close()
        theirs.close()
        os.close(err)
        os.close(kept)
    streams.started()
    try:
        number = _await(ours, out, process, isolation.tool)
        if number == errno.ENOENT:
            raise not_seen(arguments[0], environment.get("PATH", os.defpath), mounts)
        if number:
            raise not_started(arguments[0], OSError(number, os.strerror(number)))
    except BaseException:
        process.kill()
        process.wait()
        streams.finish(_START_SECONDS)
        if terminal is not None:
            terminal.take(process.pid)
        raise
    return Isolated(process, ours, terminal, streams)


def _await(control: socket.socket, errors: int, process: "subprocess.Popen[bytes]", tool: str) -> int:
    """The errno of exec(3) in there, 0 where the program was started."""
    control.settimeout(_START_SECONDS)
    try:
        told = control.recv(256)
    except TimeoutError:
        raise IsolationRefused(f"`{tool}` did not start within {_START_SECONDS:g} seconds; {_REMEDY}") from None
    finally:
        control.settimeout(None)
    if told == b"started\n":
        return 0
    if told.startswith(b"failed "):
        return int(told.split()[1])
    process.wait()
    said = os.read(errors, 4096).decode("utf-8", "replace").strip().splitlines()
    raise IsolationRefused(f"this machine does not isolate: {said[-1] if said else f'`{tool}` ended'}; {_REMEDY}")


def _wish(isolation: Isolation, ready: Ready, extra: Sequence[tuple[Path, Path]], etc: tuple[Mount, ...]) -> Wish:
    return Wish(
        work=isolation.work,
        home=isolation.home,
        show=isolation.show,
        interpreter=trees(),
        ours=isolation.ours,
        rules=ready.hidden.rules,
        secrets=ready.hidden.files,
        state=ready.state,
        etc=etc,
        trust=ready.trust.bundle.parent,
        named=isolation.named,
        extra=tuple((inside, source) for source, inside in extra),
    )


def _prepare(terminal: Terminal | None) -> None:
    """The tool outlives the terminal's keys: what the program makes of them decides."""
    for number in _HELD:
        signal.signal(number, signal.SIG_IGN)
    if terminal is not None:
        terminal.enter()


def _may_share_terminal() -> bool:
    """Whether the program may have our session's terminal: where the kernel lets nobody put keys into it (TIOCSTI), so
    that the program cannot type commands for the shell that is there after it."""
    try:
        with Path("/proc/sys/dev/tty/legacy_tiocsti").open() as file:
            closed = file.read().strip() == "0"
        return closed and os.ttyname(0).startswith("/dev/pts/")
    except OSError:
        return False


def _version(tool: str) -> str:
    """Asked without a variable of ours: the tool is dumpable, whatever we are."""
    asked = [tool, "--version"]
    return subprocess.run(asked, env={}, capture_output=True, text=True, check=False).stdout  # noqa: S603
