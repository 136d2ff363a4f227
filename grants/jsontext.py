"""JSON text that can be read in exactly one way, or an error that shows none of it.

Strategy: jiter does the work in one pass and in its strictest mode; this module closes the three gaps that it leaves,
each by a cheap look that only in rare cases is followed by a walk over the value.

- Depth. jiter refuses a value inside 201 containers, but lets an empty container be the 201st. The text is parsed
  inside one more array, so that whatever passes is well within the limit; only what fails is parsed as it is and
  measured.
- Overflow. `1e999` comes out as an infinity. No number overflows without an exponent or 309 digits, and in most texts
  the bytes show that there is neither.
- Error texts. jiter's name the offending key; ours are a fixed set.
"""

from typing import Final, final

from jiter import from_json

type JsonValue = bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None
"""A parsed JSON text (RFC 8259). Numbers with a fraction or an exponent are floats, all others ints."""

MAX_LEVELS: Final = 200
"""Containers that may stand one inside the other."""

_TOO_DEEP: Final = f"it is more than {MAX_LEVELS} levels deep"
_TOO_LARGE: Final = "a number is too large"
_NOT_JSON: Final = "it is not one JSON value"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_TEXTS: Final = (
    ("Detected duplicate key", "an object has the same key twice"),
    ("recursion limit", _TOO_DEEP),
    ("number out of range", _TOO_LARGE),
    ("trailing characters", "something follows the value"),
    ("EOF", "it ends too early"),
    ("invalid unicode", "it is not UTF-8"),
    ("lone leading surrogate", "a string holds half of a surrogate pair"),
    ("unexpected end of hex escape", "a string holds half of a surrogate pair"),
    ("control character", "a string holds a control character"),
)

_LARGEST: Final = int(1.7976931348623157e308)


_DIGITS: Final = b"0123456789"
_NUMERALS: Final = b"0123456789.+"
_STRIDE: Final = 30
_PART_BYTES: Final = 1024 * 1024


def _outline() -> bytes:
    """A translation table: marks of an exponent become `e`, what may stand beside a number a space, all else `x`."""
    table = bytearray(b"x" * 256)
    for byte in b" \t\r\n[]{}:,-":
        table[byte] = ord(" ")
    table[ord("e")] = table[ord("E")] = ord("e")
    return bytes(table)


_OUTLINE: Final = _outline()
_ZEROS: Final = bytes(ord("0") if byte in _DIGITS else byte for byte in range(256))


@final
class JsonInvalid(ValueError):
    """The text is not strict JSON.

    The message says what is wrong and holds nothing of the text. `position` is where, as `line 1, column 17`, or
    empty where that is not known.
    """

    def __init__(self, text: str, position: str = "") -> None:
        super().__init__(text)
        self.position = position


def parse_json(data: bytes) -> JsonValue:
    """Read `data` as one JSON text in UTF-8 (RFC 8259), as strictly as the specification asks.

    Refused beyond the grammar: a byte order mark, a key twice in one object (compared after decoding, at any depth),
    NaN and infinities, a number beyond the range of a double (whole numbers too), half a surrogate pair, more than
    `MAX_LEVELS` levels, a whole number of more than 4,300 digits.

    Raises:
        JsonInvalid: the text is refused.
    """
    enclosed = b"[" + data + b"]"
    try:
        values = _read(enclosed)
    except ValueError:
        values = None
    # `1,2` and the empty text make an array too, but not one of exactly one value
    value = values[0] if isinstance(values, list) and len(values) == 1 else _read_plain(data)
    if _may_overflow(enclosed) and _overflows(value):
        raise JsonInvalid(_TOO_LARGE)
    return value


def _read(data: bytes) -> JsonValue:
    value: JsonValue = from_json(data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    return value


def _read_plain(data: bytes) -> JsonValue:
    """Read a text that is malformed, or as deep as can be."""
    try:
        value = _read(data)
    except ValueError as error:
        message = str(error)
    else:
        if _levels(value) > MAX_LEVELS:
            raise JsonInvalid(_TOO_DEEP)
        return value
    # raised here, and not above, so that the parser's message is not carried along
    if data.startswith(_BYTE_ORDER_MARK):
        raise JsonInvalid("it starts with a byte order mark")
    text = next((text for start, text in _TEXTS if message.startswith(start)), _NOT_JSON)
    _, _, place = message.rpartition(" at line ")
    raise JsonInvalid(text, f"line {place.replace(' column', ', column')}")


def _levels(value: JsonValue) -> int:
    levels = 0
    row = [value]
    while row := [item for item in row if isinstance(item, dict | list)]:
        levels += 1
        row = [below for item in row for below in (item.values() if isinstance(item, dict) else item)]
    return levels


def _may_overflow(text: bytes) -> bool:
    """Whether `text` could hold a number beyond the range of a double: never wrong when it says no.

    Without its digits, points and plus signs a number with an exponent is an `e` between two marks that are no
    letters. A whole number of 309 digits covers ten bytes in a row of every thirtieth. Part by part, so that a large
    text does not keep other threads waiting.
    """
    parts = [
        text[start : start + _PART_BYTES].translate(_OUTLINE, _NUMERALS) for start in range(0, len(text), _PART_BYTES)
    ]
    return b" e " in b"".join(parts) or b"0" * 10 in text[::_STRIDE].translate(_ZEROS)


def _overflows(value: JsonValue) -> bool:
    """Whether a number in `value` is beyond the range of a double."""
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str:
            continue
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif (kind is float or kind is int) and not -_LARGEST <= item <= _LARGEST:  # type: ignore[operator]
            return True
    return False
