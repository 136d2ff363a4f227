"""Content codings taken off within a limit, so that a small body cannot unfold into a large one.

Strategy: every decoder is asked for one byte more than the limit allows, and what could go on after that is never
decoded. A coded body is exactly one complete stream (gzip: at most 16 members, RFC 1952, 2.2): a cut stream and bytes
after its end are refused, since readers differ about both. Sources: RFC 9110, 8.4; RFC 9659 (the zstd window).
"""

import zlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, final

import brotli  # type: ignore[import-untyped]
import zstandard

from .message import Fields

MAX_CODINGS: Final = 2
"""Codings that one body may have, `identity` not counted."""

_MAX_MEMBERS: Final = 16
_ZSTD_WINDOW: Final = 8 * 1024 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB: Final = zlib.MAX_WBITS
_RAW_DEFLATE: Final = -zlib.MAX_WBITS


class CodingFault(StrEnum):
    """Why a body cannot be decoded."""

    TOO_LARGE = "too-large"
    TOO_MANY = "too-many"
    UNKNOWN = "unknown"
    MALFORMED = "malformed"


@final
class CodingError(ValueError):
    """A body cannot be decoded. Holds nothing of it."""

    def __init__(self, fault: CodingFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def content_codings(fields: Fields) -> tuple[bytes, ...]:
    """The content codings that `fields` name, in the order in which they were applied, in lower case.

    `identity` and empty list elements are left out (RFC 9110, 5.6.1 and 8.4).
    """
    values = [value for name, value in fields if name.lower() == b"content-encoding"]
    if not values:
        return ()
    named = [element.strip(b" \t").lower() for value in values for element in value.split(b",")]
    return tuple([coding for coding in named if coding and coding != b"identity"])


def decode(codings: Sequence[bytes], body: bytes, *, limit: int) -> tuple[bytes, ...]:
    """Take `codings` off `body`, the last one first: the body as received, after each step, and last of all decoded.

    An empty body has nothing to decode, whatever its codings; without a coding the result is `(body,)`, whatever its
    size.

    Args:
        codings: as `content_codings` gives them.
        body: as received.
        limit: bytes that each step may give.

    Raises:
        CodingError: a step gives more than `limit`, the stream is not one complete stream, or the coding is unknown.
    """
    if not body or not codings:
        return (body,)
    if len(codings) > MAX_CODINGS:
        raise CodingError(CodingFault.TOO_MANY)
    layers = [body]
    for coding in reversed(codings):
        decoder = _DECODERS.get(coding)
        if decoder is None:
            raise CodingError(CodingFault.UNKNOWN)
        decoded = decoder(layers[-1], limit)
        if len(decoded) > limit:
            raise CodingError(CodingFault.TOO_LARGE)
        layers.append(decoded)
    return tuple(layers)


def _gunzip(data: bytes, limit: int) -> bytes:
    decoded = b""
    for _ in range(_MAX_MEMBERS):
        part, data = _inflate(data, limit - len(decoded), _GZIP)
        decoded += part
        if not data or len(decoded) > limit:
            return decoded
    raise CodingError(CodingFault.MALFORMED)


def _undeflate(data: bytes, limit: int) -> bytes:
    """`deflate` is the zlib format; some servers send the bare stream, whose first two bytes tell it apart."""
    is_zlib = len(data) > 1 and data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2]) % 31 == 0
    decoded, rest = _inflate(data, limit, _ZLIB if is_zlib else _RAW_DEFLATE)
    if rest and len(decoded) <= limit:
        raise CodingError(CodingFault.MALFORMED)
    return decoded


def _inflate(data: bytes, limit: int, wbits: int) -> tuple[bytes, bytes]:
    """One stream, up to one byte over `limit`, and what follows it."""
    stream = zlib.decompressobj(wbits)
    try:
        decoded = stream.decompress(data, limit + 1)
    except zlib.error:
        decoded = None
    if decoded is None or (not stream.eof and len(decoded) <= limit):
        raise CodingError(CodingFault.MALFORMED)
    return decoded, stream.unused_data


def _unbrotli(data: bytes, limit: int) -> bytes:
    stream = brotli.Decompressor()
    try:
        decoded: bytes | None = stream.process(data, output_buffer_limit=limit + 1)
    except brotli.error:
        decoded = None
    if decoded is None or (not stream.is_finished() and len(decoded) <= limit):
        raise CodingError(CodingFault.MALFORMED)
    return decoded


def _unzstd(data: bytes, limit: int) -> bytes:
    """The reader is bounded but silent about a cut frame, so a second pass over a frame known to be small looks."""
    try:
        with zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(data) as reader:
            decoded = reader.read(limit + 1)
        if len(decoded) > limit:
            return decoded
        frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        complete = frame.decompress(data) == decoded and frame.eof and not frame.unused_data
    except zstandard.ZstdError:
        complete = False
    if not complete:
        raise CodingError(CodingFault.MALFORMED)
    return decoded


_DECODERS: Final[dict[bytes, Callable[[bytes, int], bytes]]] = {
    b"gzip": _gunzip,
    b"x-gzip": _gunzip,
    b"deflate": _undeflate,
    b"br": _unbrotli,
    b"zstd": _unzstd,
}
