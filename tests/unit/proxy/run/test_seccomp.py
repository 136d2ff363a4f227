"""The filter of system calls, run as the kernel runs it: on each architecture of a machine the same is refused."""

import errno
import struct

import pytest

from proxy.run.seccomp import (
    ALLOW,
    AUDIT_AARCH64,
    AUDIT_ARM,
    AUDIT_I386,
    AUDIT_X86_64,
    ERRNO,
    KILL,
    MACHINES,
    NUMBERS,
    X32,
    program,
)

AF_VSOCK = 40
CREAT, TMPFILE, WRONLY = 0o100, 0o20200000, 1
HIGH = 1 << 32
"""A bit that the kernel drops where an argument is an int or a mode."""


def decide(code: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What a filter answers to a call (bpf(4), seccomp(2))."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    lines = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    at, value = 0, 0
    while True:
        what, yes, no, operand = lines[at]
        at += 1
        match what:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, operand)
            case 0x06:
                return int(operand)
            case 0x05:
                at += operand
            case 0x15:
                at += yes if value == operand else no
            case 0x35:
                at += yes if value >= operand else no
            case 0x45:
                at += yes if value & operand else no
            case _:
                pytest.fail(f"no instruction: {what}")


CALLS = [
    pytest.param("add_key", (), errno.ENOSYS, id="add_key"),
    pytest.param("request_key", (), errno.ENOSYS, id="request_key"),
    pytest.param("keyctl", (11, 1), errno.ENOSYS, id="keyctl"),
    pytest.param("io_uring_setup", (), errno.ENOSYS, id="io_uring"),
    pytest.param("io_uring_enter", (), errno.ENOSYS, id="io_uring_enter"),
    pytest.param("io_uring_register", (), errno.ENOSYS, id="io_uring_register"),
    pytest.param("openat2", (), errno.ENOSYS, id="openat2"),
    *(pytest.param("socket", (family, 1), 0, id=f"family-{family}") for family in (1, 2, 10, 16)),
    *(pytest.param("socket", (n, 1), errno.EAFNOSUPPORT, id=f"family-{n}") for n in (0, 17, 21, 33, 38, AF_VSOCK, 42)),
    pytest.param("socket", (AF_VSOCK | HIGH, 1), errno.EAFNOSUPPORT, id="family-high"),
    pytest.param("socketcall", (1, 0), errno.EAFNOSUPPORT, id="socketcall-socket"),
    pytest.param("socketcall", (3, 0), 0, id="socketcall-connect"),
    pytest.param("chmod", (0, 0o1777), 0, id="chmod"),
    pytest.param("chmod", (0, 0o4755), errno.EPERM, id="chmod-setuid"),
    pytest.param("chmod", (0, 0o2755 | HIGH), errno.EPERM, id="chmod-setgid-high"),
    pytest.param("fchmod", (3, 0o6755), errno.EPERM, id="fchmod"),
    pytest.param("fchmodat", (3, 0, 0o755), 0, id="fchmodat"),
    pytest.param("fchmodat", (0o6000, 0, 0o4755), errno.EPERM, id="fchmodat-setuid"),
    pytest.param("fchmodat2", (3, 0, 0o2755, 0), errno.EPERM, id="fchmodat2-setgid"),
    pytest.param("creat", (0, 0o4755), errno.EPERM, id="creat"),
    pytest.param("mknod", (0, 0o104755, 0), errno.EPERM, id="mknod"),
    pytest.param("mknodat", (3, 0, 0o104755), errno.EPERM, id="mknodat"),
    pytest.param("open", (0, CREAT | WRONLY, 0o644), 0, id="open"),
    pytest.param("open", (0, CREAT | WRONLY, 0o4755), errno.EPERM, id="open-setuid"),
    pytest.param("openat", (3, 0, WRONLY, 0o4755), 0, id="openat-without-a-mode"),
    pytest.param("openat", (3, 0, CREAT | WRONLY, 0o2755), errno.EPERM, id="openat-setgid"),
    pytest.param("openat", (3, 0, TMPFILE | WRONLY, 0o4755), errno.EPERM, id="openat-unnamed"),
]


@pytest.mark.parametrize(("machine", "architectures"), MACHINES.items(), ids=MACHINES)
@pytest.mark.parametrize(("name", "arguments", "refused"), CALLS)
def test_what_is_refused(
    machine: str, architectures: tuple[int, ...], name: str, arguments: tuple[int, ...], refused: int
) -> None:
    """Keys, families of sockets, modes with special bits, and what would go past the filter; nothing else."""
    code = program(machine)
    assert code is not None
    for architecture in architectures:
        if (number := NUMBERS[architecture].get(name)) is not None:
            assert decide(code, architecture, number, *arguments) == (ERRNO | refused if refused else ALLOW)


@pytest.mark.parametrize(
    ("architecture", "calls"),
    [
        pytest.param(AUDIT_X86_64, {"keyctl": 250, "socket": 41, "openat": 257, "fchmodat": 268}, id="x86_64"),
        pytest.param(AUDIT_I386, {"keyctl": 288, "socket": 359, "openat": 295, "socketcall": 102}, id="i386"),
        pytest.param(AUDIT_AARCH64, {"keyctl": 219, "socket": 198, "openat": 56, "fchmodat": 53}, id="aarch64"),
        pytest.param(AUDIT_ARM, {"keyctl": 311, "socket": 281, "openat": 322, "fchmodat": 333}, id="arm"),
    ],
)
def test_numbers(architecture: int, calls: dict[str, int]) -> None:
    """They are the kernel's (asm/unistd.h)."""
    assert NUMBERS[architecture].items() >= calls.items()


@pytest.mark.parametrize("number", [X32, X32 | 250, X32 | 41, 0xFFFFFFFF])
def test_x32_has_no_calls(number: int) -> None:
    """Under the architecture of x86_64, it has numbers that would pass otherwise."""
    assert decide(program("x86_64") or b"", AUDIT_X86_64, number) == ERRNO | errno.ENOSYS


@pytest.mark.parametrize(("machine", "other"), [("x86_64", AUDIT_ARM), ("aarch64", AUDIT_I386), ("x86_64", 0)])
def test_an_architecture_that_is_not_listed(machine: str, other: int) -> None:
    """It has no calls at all."""
    assert decide(program(machine) or b"", other, 1) == KILL


def test_an_unknown_machine() -> None:
    """There is no filter for it, which is told."""
    assert program("vax") is None
