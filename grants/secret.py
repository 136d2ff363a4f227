"""A secret value in a type that cannot be printed."""

from typing import NoReturn, final

MIN_SECRET_BYTES = 8


class SecretInvalid(ValueError):
    """The value cannot serve as a secret. The message never holds the value."""


@final
class Secret:
    """A credential's value: visible ASCII without outer white space, at least 8 bytes.

    `repr`, `str`, `format` and pickling never show it; `reveal` is the only way to its bytes.

    Raises:
        SecretInvalid: the value is empty, too short, or holds anything but visible ASCII and inner spaces.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        if len(value) < MIN_SECRET_BYTES:
            raise SecretInvalid(f"a secret has at least {MIN_SECRET_BYTES} bytes")
        if value.strip() != value:
            raise SecretInvalid("a secret has no white space around it")
        if any(byte < 0x20 or byte > 0x7E for byte in value):
            raise SecretInvalid("a secret is visible ASCII")
        self._value = value

    def reveal(self) -> bytes:
        """The value. Put it into a message that goes upstream, never into a text."""
        return self._value

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "<secret>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")
