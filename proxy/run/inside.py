"""Inside of an isolated program's namespaces: the first process there, which is the only way out.

It listens on ports of the loopback that is there alone, pumps each connection to a socket of the proxy, runs the
program, passes signals on, reaps what is left over, and ends with the program; then the kernel ends all others. It
holds nothing secret. It runs on the standard library alone, as a file of its own:

    python -I -S inside.py CONTROL STDERR GROUP FILTER PORT=SOCKET... -- COMMAND ARGUMENTS

CONTROL is the descriptor of a socket. It is told `started`, or `failed ERRNO` of exec(3); each byte that comes from it
is a signal's number, with 128 added where the whole group is meant. Its end is ours. STDERR becomes standard error.
GROUP is `own` where the program gets a process group of its own, as it has no terminal. FILTER is what
`seccomp.program` made, in hexadecimal digits; `-` is none. It holds for us too, as the program might come to us.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys

CHUNK = 64 * 1024
GROUP = 0x80
_ENDED = 1
KEYCTL = {"x86_64": 250, "i686": 288, "i386": 288, "aarch64": 219, "riscv64": 219, "loongarch64": 219}
KEYCTL |= {"armv6l": 311, "armv7l": 311, "ppc64le": 271, "ppc64": 271, "s390x": 280}
"""The number of keyctl(2), for which libc has no function."""
_JOIN_SESSION_KEYRING = 1
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2
_INSTRUCTION = 8  # bytes of a struct sock_filter


def leave_keys() -> None:
    """A session keyring of the program's own, without a key: ours may hold the user's (keyctl(2)).

    Raises:
        OSError: the kernel has keys and does not let us. Where it has none, or keyctl(2) is forbidden, the program
            comes to none either.
    """
    number = KEYCTL.get(os.uname().machine)
    if number is None:
        raise OSError(f"keyctl is not known on {os.uname().machine}, so keys of the user could be read")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None) < 0:
        cause = ctypes.get_errno()
        if cause not in (errno.ENOSYS, errno.EPERM):
            raise OSError(cause, f"the session's keys cannot be left: {os.strerror(cause).lower()}")


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def restrict(code: bytes) -> None:
    """Have the kernel hold every system call of ours, and of all that we start, to the filter (seccomp(2)).

    Raises:
        OSError: it does not.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    filtered = Program(len(code) // _INSTRUCTION, code)
    for option, values in (
        (_PR_SET_NO_NEW_PRIVS, (ctypes.c_ulong(1), None, None, None)),
        (_PR_SET_SECCOMP, (ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(filtered), None, None)),
    ):
        if libc.prctl(option, *values) != 0:
            cause = ctypes.get_errno()
            raise OSError(cause, f"system calls cannot be filtered: {os.strerror(cause).lower()}")


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the one side has said all, then say so to the other."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except (OSError, RuntimeError):
        writer.transport.abort()


async def carry(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Join one connection to the proxy's socket. Where nobody listens there any more, it is broken off."""
    try:
        to_reader, to_writer = await asyncio.open_unix_connection(path, limit=CHUNK)
    except OSError:
        writer.transport.abort()
        return
    try:
        await asyncio.gather(pump(reader, to_writer), pump(to_reader, writer))
    finally:
        for end in (writer, to_writer):
            end.close()
            with contextlib.suppress(OSError):
                await end.wait_closed()


async def listen(port: int, path: str) -> asyncio.Server:
    """Listen on a port, and carry what comes."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await carry(path, reader, writer)

    return await asyncio.start_server(accept, "127.0.0.1", port, limit=CHUNK)


def start(command: list[str], *, own_group: bool) -> "subprocess.Popen[bytes]":
    """Run the program, with every signal as it usually is."""

    def before() -> None:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    return subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
        command, preexec_fn=before, process_group=0 if own_group else None
    )


def deliver(pid: int, data: bytes) -> None:
    """Pass signals on."""
    for byte in data:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if byte & GROUP:
                os.killpg(os.getpgid(pid), byte & ~GROUP)
            else:
                os.kill(pid, byte)


async def main(control: socket.socket, forwards: list[str], command: list[str], *, own_group: bool) -> None:
    """Run to the program's end, and end this process."""
    loop = asyncio.get_running_loop()
    servers = []  # kept, so that they go on
    for forward in forwards:
        port, _, path = forward.partition("=")
        servers.append(await listen(int(port), path))
    program: subprocess.Popen[bytes] | None = None

    def reap() -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if program is not None and pid == program.pid:
                code = os.waitstatus_to_exitcode(status)
                os._exit(code if code >= 0 else 128 - code)

    def told() -> None:
        data = control.recv(CHUNK)
        if not data:
            os._exit(_ENDED)
        if program is not None:
            deliver(program.pid, data)

    try:
        program = start(command, own_group=own_group)
    except OSError as error:
        control.sendall(b"failed %d\n" % (error.errno or 0))
        os._exit(_ENDED)
    control.sendall(b"started\n")
    loop.add_signal_handler(signal.SIGCHLD, reap)
    loop.add_reader(control.fileno(), told)
    reap()
    await asyncio.Event().wait()


if __name__ == "__main__":
    split = sys.argv.index("--")
    number, stderr, group, code, *ports = sys.argv[1:split]
    try:
        leave_keys()
        if code != "-":
            restrict(bytes.fromhex(code))
    except OSError as error:
        sys.exit(f"inside: {error.strerror or error}")
    os.dup2(int(stderr), 2)
    os.close(int(stderr))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    asyncio.run(main(socket.socket(fileno=int(number)), ports, sys.argv[split + 1 :], own_group=group == "own"))
