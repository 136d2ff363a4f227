"""The view of an isolated program, made by mounts of our own where there is no bubblewrap.

`unshare` of util-linux makes the namespaces and runs this file in them, as their first process and on the standard
library alone:

    python -I -S unshared.py MOUNTS WORK SESSION -- COMMAND ARGUMENTS

It builds the view in a new root (pivot_root(2)), brings the loopback up, gives up every capability for good, and
becomes COMMAND. Whatever the kernel refuses ends it, and nothing is run.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterable, Mapping

RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
REMOUNT, BIND, MOVE, REC, PRIVATE = 32, 4096, 8192, 16384, 1 << 18
DETACH = 2
SYS_MOUNT_SETATTR = 442
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 24, 38, 47
AMBIENT_CLEAR = 4
CAPABILITY_VERSION = 0x20080522
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Raises OSError for what libc says went wrong."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number).lower()}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    names = (os.fsencode(source), os.fsencode(target), kind.encode() or None)
    check(libc.mount(*names, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


def set_attributes(path: str, put: int, take: int = 0, *, below: bool = True) -> None:
    """mount_setattr(2), of everything below the path too."""
    attributes = struct.pack("QQQQ", put, take, 0, 0)
    done = libc.syscall(
        ctypes.c_long(SYS_MOUNT_SETATTR),
        ctypes.c_int(AT_FDCWD),
        os.fsencode(path),
        ctypes.c_uint(AT_RECURSIVE if below else 0),
        attributes,
        ctypes.c_size_t(len(attributes)),
    )
    check(done, f"mount_setattr {path}")


def make(path: str, *, directory: bool) -> None:
    """Something to mount on."""
    if os.path.lexists(path):
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    if directory:
        os.mkdir(path, 0o755)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def put(old: str, new: str, one: Mapping[str, object]) -> str | None:
    """One mount of the view. The path where it has to be closed at the end."""
    path = f"{new}{one['path']}"
    if one["kind"] == "link":
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        os.symlink(str(one["target"]), path)
    elif one["kind"] == "empty":
        make(path, directory=True)
        mount("tmpfs", path, "tmpfs", NOSUID | NODEV, f"mode={one['mode']}")
        return path if one["closed"] else None
    else:
        source = f"{old}{one['source']}"
        make(path, directory=os.path.isdir(source))
        mount(source, path, flags=BIND | REC)
        if one["writable"]:
            set_attributes(path, ATTR_NOSUID | ATTR_NODEV)
        else:
            set_attributes(path, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)
    return None


def build(mounts: Iterable[Mapping[str, object]]) -> None:
    """The new root, and nothing of the old one."""
    mount("none", "/", flags=PRIVATE | REC)
    base = "/tmp"  # noqa: S108 - a place to mount on, not to write to
    mount("tmpfs", base, "tmpfs", NOSUID | NODEV, "mode=0755")
    os.mkdir(f"{base}/old")
    os.mkdir(f"{base}/new")
    mount("tmpfs", f"{base}/new", "tmpfs", NOSUID | NODEV, "mode=0755")
    pivot_root(base, f"{base}/old")
    old, new = "/old", "/new"
    devices(old, new)
    make(f"{new}/proc", directory=True)
    mount("proc", f"{new}/proc", "proc", NOSUID | NODEV | NOEXEC)
    closed = [path for one in mounts if (path := put(old, new, one)) is not None]
    for path in (*closed, new):
        set_attributes(path, ATTR_RDONLY, below=False)
    os.chdir(new)
    pivot_root(".", ".")  # the old root is then on top of the new one (pivot_root(2), "pivot_root(".", ".")")
    check(libc.umount2(b".", DETACH), "umount")
    os.chdir("/")


def pivot_root(new: str, old: str) -> None:
    """pivot_root(2), for which libc has no function."""
    number = SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(f"pivot_root is not known on {os.uname().machine}; install bubblewrap")
    check(libc.syscall(ctypes.c_long(number), os.fsencode(new), os.fsencode(old)), "pivot_root")
    os.chdir("/" if new != "." else ".")


def devices(old: str, new: str) -> None:
    """The devices that hold nothing."""
    make(f"{new}/dev", directory=True)
    mount("tmpfs", f"{new}/dev", "tmpfs", NOSUID, "mode=0755")
    for name in DEVICES:
        make(f"{new}/dev/{name}", directory=False)
        mount(f"{old}/dev/{name}", f"{new}/dev/{name}", flags=BIND)
    for name in ("shm", "pts"):
        os.mkdir(f"{new}/dev/{name}")
    mount("tmpfs", f"{new}/dev/shm", "tmpfs", NOSUID | NODEV, "mode=1777")  # noqa: S108
    mount("devpts", f"{new}/dev/pts", "devpts", NOSUID | NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd"}
    links |= {name: f"/proc/self/fd/{number}" for number, name in enumerate(("stdin", "stdout", "stderr"))}
    for name, target in links.items():
        os.symlink(target, f"{new}/dev/{name}")


def loopback() -> None:
    """Bring the loopback up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(sock, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def give_up() -> None:
    """No capability, now or by any program (capabilities(7))."""
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    check(libc.prctl(PR_CAP_AMBIENT, AMBIENT_CLEAR, 0, 0, 0), "ambient capabilities")
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in range(last + 1):
        check(libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "bounding set")
    header, none = struct.pack("Ii", CAPABILITY_VERSION, 0), struct.pack("6I", *[0] * 6)
    check(libc.capset(header, none), "capset")


def main() -> None:
    """Make the view and become the command."""
    split = sys.argv.index("--")
    mounts, work, session = sys.argv[1:split]
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        build(json.loads(mounts))
        loopback()
        with open("/proc/sys/user/max_user_namespaces", "w") as file:
            file.write("0")
        set_attributes("/proc", ATTR_RDONLY, below=False)  # what is written to there had to be
        give_up()
        os.chdir(work)
        if session == "own":
            os.setsid()
        command = sys.argv[split + 1 :]
        os.execv(command[0], command)  # noqa: S606 - our own interpreter
    except OSError as error:
        sys.exit(f"unshared: {error.strerror or error}")


if __name__ == "__main__":
    main()
