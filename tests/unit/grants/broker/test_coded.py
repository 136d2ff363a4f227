"""Codings taken off a stream."""

import contextlib
import gzip
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.broker.coded import STEP, StreamDecoder
from grants.coding import CodingError, CodingFault


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


CODINGS: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b"x-gzip", gzip.compress),
    "deflate": (b"deflate", zlib.compress),
    "raw deflate": (b"deflate", raw_deflate),
    "br": (b"br", brotli.compress),
    "zstd": (b"zstd", zstandard.compress),
}
BODY = b"event: x\ndata: " + bytes(range(256)) * 40 + b"\n\n"


def decoded(codings: list[bytes], pieces: list[bytes]) -> bytes:
    decoder = StreamDecoder(codings)
    out = [part for piece in pieces for part in decoder.feed(piece)]
    decoder.finish()
    assert all(out)
    return b"".join(out)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_decodes_however_it_is_cut(name: str, size: int) -> None:
    """A stream decodes to what was coded, wherever its pieces begin."""
    coding, encode = CODINGS[name]
    assert decoded([coding], cut(encode(BODY), size)) == BODY


def test_two_codings_and_none() -> None:
    """The last coding comes off first; without one, pieces go through; an empty body has nothing to decode."""
    assert decoded([b"gzip", b"br"], cut(brotli.compress(gzip.compress(BODY)), 50)) == BODY
    assert decoded([], [b"a", b"", b"b"]) == b"ab"
    assert decoded([b"gzip"], [b""]) == b""


@pytest.mark.parametrize("name", CODINGS)
def test_large_output_comes_in_pieces(name: str) -> None:
    """What unfolds from little is given out bounded, not at once."""
    coding, encode = CODINGS[name]
    bomb = encode(bytes(20 * STEP))
    sizes = [len(part) for part in StreamDecoder([coding]).feed(bomb)]
    assert sum(sizes) == 20 * STEP
    assert max(sizes) <= STEP * 128


def test_an_event_is_decoded_at_once() -> None:
    """What an upstream flushed is given out before the stream goes on."""
    stream = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    first = stream.compress(b"data: 1\n\n") + stream.flush(zlib.Z_SYNC_FLUSH)
    assert b"".join(StreamDecoder([b"gzip"]).feed(first)) == b"data: 1\n\n"


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data[:1], id="one byte"),
        pytest.param(lambda data: data + b"!", id="followed"),
        pytest.param(lambda data: b"\xff\xff" + data, id="another head"),
    ],
)
@pytest.mark.parametrize("size", [1, 100_000])
def test_malformed(name: str, damage: Callable[[bytes], bytes], size: int) -> None:
    """A stream is exactly one complete stream of its coding."""
    coding, encode = CODINGS[name]
    with pytest.raises(CodingError) as error:
        decoded([coding], cut(damage(encode(BODY)), size))
    assert error.value.fault is CodingFault.MALFORMED
    assert error.value.__context__ is None


@pytest.mark.parametrize(("members", "taken"), [(2, True), (16, True), (17, False)])
def test_members(members: int, taken: bool) -> None:
    """A gzip body has at most 16 members (RFC 1952, 2.2)."""
    body = gzip.compress(b"ab") * members
    if taken:
        assert decoded([b"gzip"], [body]) == b"ab" * members
        return
    with pytest.raises(CodingError):
        decoded([b"gzip"], [body])


@pytest.mark.parametrize(
    ("codings", "fault"),
    [
        pytest.param([b"compress"], CodingFault.UNKNOWN, id="unknown"),
        pytest.param([b"gzip"] * 3, CodingFault.TOO_MANY, id="too many"),
    ],
)
def test_refused(codings: list[bytes], fault: CodingFault) -> None:
    """Codings that cannot be taken off are refused before the first byte."""
    with pytest.raises(CodingError) as error:
        StreamDecoder(codings)
    assert error.value.fault is fault


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([b"gzip", b"deflate", b"br", b"zstd"]), st.lists(st.binary(max_size=20), max_size=4))
def test_total(coding: bytes, pieces: list[bytes]) -> None:
    """Any bytes decode or are malformed; nothing else is raised."""
    with contextlib.suppress(CodingError):
        decoded([coding], pieces)
