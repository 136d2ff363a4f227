"""The filter of system calls of an isolated program, for what namespaces do not hold (seccomp(2)). Pure.

- *Keys*: a keyring of the user is open to each process of the same uid, whatever its session keyring is (keyrings(7)).
- *Sockets*: only families that keep to their network namespace, so none of a virtual machine's host or of devices.
- *Set-user-ID and set-group-ID*: a file in the working directory that has them is a program with the user's rights for
  others on the host. A mode is an argument, but that of openat2(2), which is therefore not there.
- *io_uring*: it would do all of this past the filter.

A machine runs programs of more than one architecture, each with numbers of its own, and a program may call by any. One
that is not listed has no calls. Where arguments are 32 bits or less, the kernel takes no notice of the others.
"""

import errno
import struct
from collections.abc import Sequence
from typing import Final

AUDIT_X86_64: Final = 0xC000003E
AUDIT_I386: Final = 0x40000003
AUDIT_AARCH64: Final = 0xC00000B7
AUDIT_ARM: Final = 0x40000028
X32: Final = 0x40000000
"""The bit of a number that is called by x32, under the architecture of x86_64."""

ALLOW: Final = 0x7FFF0000
ERRNO: Final = 0x00050000
KILL: Final = 0x80000000

_LOAD, _RETURN, _JUMP, _EQUAL, _AT_LEAST, _ANY_BIT = 0x20, 0x06, 0x05, 0x10, 0x30, 0x40  # linux/bpf_common.h
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

FAMILIES: Final = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK."""
_SPECIAL: Final = 0o6000
_CREATES: Final = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE: without one of them open(2) has no mode, and what stands there is chance."""

type Code = tuple[tuple[int, int, int, int], ...]


def _load(offset: int) -> Code:
    return ((_LOAD, 0, 0, offset),)


def _argument(place: int) -> Code:
    return _load(_ARGUMENTS + 8 * place)  # its low half, on machines that store that first


def _if(test: int, value: int, then: Code) -> Code:
    """`then`, which ends with an answer, where the test holds."""
    return ((_JUMP | test, 0, len(then), value), *then)


def _answer(action: int) -> Code:
    return ((_RETURN, 0, 0, action),)


_ALLOW: Final = _answer(ALLOW)
_MISSING: Final = _answer(ERRNO | errno.ENOSYS)
_FORBIDDEN: Final = _answer(ERRNO | errno.EPERM)
_NO_FAMILY: Final = _answer(ERRNO | errno.EAFNOSUPPORT)


def _family() -> Code:
    known = tuple(line for family in FAMILIES for line in _if(_EQUAL, family, _ALLOW))
    return (*_argument(0), *known, *_NO_FAMILY)


def _mode(place: int) -> Code:
    return (*_argument(place), *_if(_ANY_BIT, _SPECIAL, _FORBIDDEN), *_ALLOW)


def _open(flags: int) -> Code:
    return (*_argument(flags), *_if(_ANY_BIT, _CREATES, _mode(flags + 1)), *_ALLOW)


def _socketcall() -> Code:
    """The family is in memory, where no filter sees it; the first call of socketcall(2) is socket(2)."""
    return (*_argument(0), *_if(_EQUAL, 1, _NO_FAMILY), *_ALLOW)


_KEYS: Final = ("add_key", "request_key", "keyctl")
_RULES: Final[dict[str, Code]] = {
    **dict.fromkeys(_KEYS, _MISSING),
    **dict.fromkeys(("io_uring_setup", "io_uring_enter", "io_uring_register", "openat2"), _MISSING),
    "socket": _family(),
    "socketcall": _socketcall(),
    **dict.fromkeys(("chmod", "fchmod", "creat", "mknod"), _mode(1)),
    **dict.fromkeys(("fchmodat", "fchmodat2", "mknodat"), _mode(2)),
    "open": _open(1),
    "openat": _open(2),
}
_ARCHITECTURES: Final = (AUDIT_X86_64, AUDIT_I386, AUDIT_AARCH64, AUDIT_ARM)
_TABLE: Final[dict[str, tuple[int | None, ...]]] = {
    "add_key": (248, 286, 217, 309),
    "request_key": (249, 287, 218, 310),
    "keyctl": (250, 288, 219, 311),
    "io_uring_setup": (425, 425, 425, 425),
    "io_uring_enter": (426, 426, 426, 426),
    "io_uring_register": (427, 427, 427, 427),
    "openat2": (437, 437, 437, 437),
    "socket": (41, 359, 198, 281),
    "socketcall": (None, 102, None, None),
    "chmod": (90, 15, None, 15),
    "fchmod": (91, 94, 52, 94),
    "fchmodat": (268, 306, 53, 333),
    "fchmodat2": (452, 452, 452, 452),
    "creat": (85, 8, None, 8),
    "mknod": (133, 14, None, 14),
    "mknodat": (259, 297, 33, 324),
    "open": (2, 5, None, 5),
    "openat": (257, 295, 56, 322),
}
NUMBERS: Final = {
    architecture: {name: number for name, row in _TABLE.items() if (number := row[place]) is not None}
    for place, architecture in enumerate(_ARCHITECTURES)
}
"""The numbers of the calls that are held, by architecture (linux/audit.h, asm/unistd.h)."""
_X86: Final = (AUDIT_X86_64, AUDIT_I386)
_ARM: Final = (AUDIT_AARCH64, AUDIT_ARM)
MACHINES: Final = dict.fromkeys(("x86_64", "i686", "i586", "i486", "i386"), _X86) | dict.fromkeys(
    ("aarch64", "armv8l", "armv7l", "armv6l"), _ARM
)
"""The architectures that a kernel may run, by what uname(2) says; it says the smaller one where it was told to."""


def program(machine: str) -> bytes | None:
    """The filter, as `struct sock_filter` each; None for a machine whose numbers are not known here."""
    if (architectures := MACHINES.get(machine)) is None:
        return None
    code: Code = _load(_ARCHITECTURE)
    for architecture in architectures:
        part = _part(architecture)
        # A jump on a test reaches 255 lines, this one any.
        code += ((_JUMP | _EQUAL, 1, 0, architecture), (_JUMP, 0, 0, len(part)), *part)
    return _packed((*code, *_answer(KILL)))


def _part(architecture: int) -> Code:
    x32 = _if(_AT_LEAST, X32, _MISSING) if architecture == AUDIT_X86_64 else ()
    calls = (_if(_EQUAL, number, _RULES[name]) for name, number in NUMBERS[architecture].items())
    return (*_load(_NUMBER), *x32, *(line for call in calls for line in call), *_ALLOW)


def _packed(code: Sequence[tuple[int, int, int, int]]) -> bytes:
    return b"".join(struct.pack("=HBBI", *line) for line in code)
