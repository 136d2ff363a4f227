"""Content codings taken off a stream as it comes, so that what is relayed is what was searched.

Each step gives out pieces of bounded size, however small the input that they unfold from, and takes exactly one
complete stream, as `grants.coding` does for a whole body (gzip: at most 16 members, RFC 1952, 2.2). What was decoded
of a piece can be relayed at once: nothing waits for the end. Sources: RFC 9110, 8.4; RFC 9659 (the zstd window).
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, final

import brotli  # type: ignore[import-untyped]
import zstandard

from grants.coding import MAX_CODINGS, CodingError, CodingFault

STEP: Final = 64 * 1024
"""Bytes of one piece given out; zstd gives at most one input slice's blocks."""

_MAX_MEMBERS: Final = 16
_ZSTD_WINDOW: Final = 8 * 1024 * 1024
_ZSTD_SLICE: Final = 64
_GZIP: Final = 16 + zlib.MAX_WBITS


class _Step(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def whole(self) -> bool: ...


@final
class StreamDecoder:
    """Takes the codings off one stream.

    Args:
        codings: as `grants.coding.content_codings` gives them; without any, pieces go through as they are.

    Raises:
        CodingError: there are too many, or one is unknown.
    """

    __slots__ = ("_fed", "_steps")

    def __init__(self, codings: Sequence[bytes]) -> None:
        if len(codings) > MAX_CODINGS:
            raise CodingError(CodingFault.TOO_MANY)
        self._steps = [_step(coding) for coding in reversed(codings)]
        self._fed = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The decoded pieces that this one gives, none of them empty.

        Raises:
            CodingError: the stream is malformed. The message holds nothing of it.
        """
        self._fed = self._fed or bool(piece)
        return self._through(piece, 0)

    def finish(self) -> None:
        """The stream has ended. One without a byte has nothing to decode.

        Raises:
            CodingError: it was cut.
        """
        if self._fed and not all(step.whole() for step in self._steps):
            raise CodingError(CodingFault.MALFORMED)

    def _through(self, piece: bytes, index: int) -> Iterator[bytes]:
        if not piece:
            return
        if index == len(self._steps):
            yield piece
            return
        for decoded in self._steps[index].feed(piece):
            yield from self._through(decoded, index + 1)


def _step(coding: bytes) -> _Step:
    match coding:
        case b"gzip" | b"x-gzip":
            return _Inflate(_GZIP, members=_MAX_MEMBERS)
        case b"deflate":
            return _Deflate()
        case b"br":
            return _Brotli()
        case b"zstd":
            return _Zstd()
        case _:
            raise CodingError(CodingFault.UNKNOWN)


@final
class _Inflate:
    def __init__(self, wbits: int, *, members: int = 1) -> None:
        self._wbits = wbits
        self._left = members - 1
        self._stream = zlib.decompressobj(wbits)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._stream.eof:
                if not data:
                    return
                if not self._left:
                    raise CodingError(CodingFault.MALFORMED)
                self._left -= 1
                self._stream = zlib.decompressobj(self._wbits)
            out = self._decompress(data)
            yield out
            data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            if not data and len(out) < STEP:
                return

    def whole(self) -> bool:
        return self._stream.eof

    def _decompress(self, data: bytes) -> bytes:
        try:
            return self._stream.decompress(data, STEP)
        except zlib.error:
            pass
        # raised here, so that the library's error is not carried along
        raise CodingError(CodingFault.MALFORMED)


@final
class _Deflate:
    """The zlib format or, as some servers send it, the bare stream: the first two bytes tell."""

    def __init__(self) -> None:
        self._head = b""
        self._inflate: _Inflate | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            data = self._head + data
            if len(data) < 2:
                self._head = data
                return
            is_zlib = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2]) % 31 == 0
            self._inflate = _Inflate(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        yield from self._inflate.feed(data)

    def whole(self) -> bool:
        return self._inflate is not None and self._inflate.whole()


@final
class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            out: bytes | None = None
            if not self._stream.is_finished():
                try:
                    out = self._stream.process(data, output_buffer_limit=STEP)
                except brotli.error:
                    out = None
            if out is None:
                raise CodingError(CodingFault.MALFORMED)
            yield out
            data = b""
            # that it can take more does not mean that it holds nothing back: only an empty answer does
            if self._stream.is_finished() or not out:
                return

    def whole(self) -> bool:
        return bool(self._stream.is_finished())


@final
class _Zstd:
    """Fed in slices, since the library bounds no output: a block of a few bytes unfolds to 128 KiB at most."""

    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_SLICE):
            out = None
            if not self._stream.eof:
                try:
                    out = self._stream.decompress(data[start : start + _ZSTD_SLICE])
                except zstandard.ZstdError:
                    out = None
            if out is None or self._stream.unused_data:
                raise CodingError(CodingFault.MALFORMED)
            yield out

    def whole(self) -> bool:
        return bool(self._stream.eof)
