"""A mount namespace of its own around bubblewrap: a file system that the host mounts later does not come into the view.

bubblewrap leaves the mounts that it shows as slaves of the host's (mount_namespaces(7)), so that one which is mounted
below them later would be there too, writable. It runs on the standard library alone, as a file of its own:

    python -I -S private.py STDERR -- COMMAND ARGUMENTS

Where the kernel does not let us, that is said on STDERR, if it matters, and COMMAND is run all the same.
"""

import contextlib
import ctypes
import os
import sys

REC, PRIVATE = 16384, 1 << 18
WARNING = (
    "warning: file systems that the host mounts later, below the working directory or what is shown, are seen by the "
    "program, as this user may make no mount namespace but by bubblewrap; mount nothing there while it runs\n"
)


def enter() -> None:
    """Be in a mount namespace into which nothing is mounted from outside.

    Raises:
        OSError: the kernel does not let us. We may then be in half of one.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        os.unshare(os.CLONE_NEWNS)
    except PermissionError:
        os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNS)
        write("setgroups", "deny")
        write("uid_map", f"{user} {user} 1")
        write("gid_map", f"{group} {group} 1")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/", None, ctypes.c_ulong(PRIVATE | REC), None) != 0:
        raise OSError(ctypes.get_errno(), "mount")


def write(name: str, text: str) -> None:
    """Tell the kernel who we are in our user namespace (user_namespaces(7))."""
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)


def may_enter() -> bool:
    """Whether all of `enter` can be done: tried by a process that goes away, as there is no way back."""
    if (pid := os.fork()) == 0:
        code = 1
        with contextlib.suppress(BaseException):
            enter()
            code = 0
        os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def receives(mounts: str) -> bool:
    """Whether something that is mounted elsewhere could come into one of the mounts (proc_pid_mountinfo(5))."""
    fields = (line.partition(" - ")[0].split()[6:] for line in mounts.splitlines())
    return any(field.startswith(("shared:", "master:")) for line in fields for field in line)


def main() -> None:
    """Enter, and become the command."""
    stderr, command = int(sys.argv[1]), sys.argv[3:]
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        needed = receives(file.read())
    if needed:
        if may_enter():
            enter()
        else:
            with contextlib.suppress(OSError):
                os.write(stderr, WARNING.encode())
    os.execv(command[0], command)  # noqa: S606 - bubblewrap, by its path


if __name__ == "__main__":
    main()
