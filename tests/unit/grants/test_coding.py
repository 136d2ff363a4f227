"""Content codings: each is taken off within the limit, or the body is refused."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from grants.coding import MAX_CODINGS, CodingError, CodingFault, content_codings, decode

TEXT = b'{"items":[]}' * 20


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def zstd_stream(data: bytes) -> bytes:
    """A frame that does not say its size."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


def zstd_wide(data: bytes) -> bytes:
    """A frame whose window is larger than the 8 MiB of RFC 9659."""
    parameters = zstandard.ZstdCompressionParameters(window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(data) + stream.flush()


def zstd_checked(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


CODERS: list[tuple[str, bytes, Callable[[bytes], bytes]]] = [
    ("gzip", b"gzip", gzip.compress),
    ("x-gzip", b"x-gzip", gzip.compress),
    ("deflate in the zlib format", b"deflate", zlib.compress),
    ("deflate as a bare stream", b"deflate", raw_deflate),
    ("br", b"br", brotli.compress),
    ("zstd", b"zstd", zstandard.compress),
    ("zstd without a size", b"zstd", zstd_stream),
    ("zstd with a checksum", b"zstd", zstd_checked),
]
each_coding = pytest.mark.parametrize(
    ("coding", "encode"), [pytest.param(coding, encode, id=name) for name, coding, encode in CODERS]
)


def fault_of(codings: tuple[bytes, ...], body: bytes, limit: int = 65536) -> CodingFault:
    with pytest.raises(CodingError) as refusal:
        decode(codings, body, limit=limit)
    assert refusal.value.__context__ is None
    return refusal.value.fault


@each_coding
def test_a_coding_is_taken_off(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    """A coded body decodes to what was encoded, up to exactly the limit, the empty content included."""
    assert decode((coding,), encode(TEXT), limit=len(TEXT))[1:] == (TEXT,)
    assert decode((coding,), encode(b""), limit=0)[1:] == (b"",)


@each_coding
def test_one_byte_over_the_limit(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    """A body that decodes to one byte more than the limit is too large."""
    assert fault_of((coding,), encode(TEXT), len(TEXT) - 1) is CodingFault.TOO_LARGE
    assert fault_of((coding,), encode(b"x"), 0) is CodingFault.TOO_LARGE


@each_coding
def test_a_cut_stream(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    """A stream that ends early is malformed, wherever it is cut."""
    whole = encode(TEXT)
    for end in range(1, len(whole)):
        assert fault_of((coding,), whole[:end]) is CodingFault.MALFORMED, end


@each_coding
def test_bytes_after_the_stream(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    """Nothing may follow the end of the stream, since some readers would stop there and some would not."""
    for tail in (b"x", b"\0", b"\r\n", b"[" * 100):
        assert fault_of((coding,), encode(TEXT) + tail) is CodingFault.MALFORMED


@each_coding
def test_what_is_no_stream(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    """A body that is not in its coding is malformed; it is never taken as it is."""
    for body in (b"{}", b"\xff" * 40, b"\x1f\x8b", b"x", TEXT):
        assert fault_of((coding,), body) is CodingFault.MALFORMED


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        pytest.param(b"gzip", gzip.compress(TEXT)[:-8] + bytes(8), id="gzip with a wrong checksum"),
        pytest.param(b"gzip", zlib.compress(TEXT), id="zlib format called gzip"),
        pytest.param(b"gzip", gzip.compress(b"") * 17, id="gzip of 17 members"),
        pytest.param(b"deflate", zlib.compress(TEXT)[:-4] + bytes(4), id="zlib format with a wrong checksum"),
        pytest.param(b"deflate", gzip.compress(TEXT), id="gzip called deflate"),
        pytest.param(b"deflate", zlib.compress(TEXT) * 2, id="zlib format twice"),
        pytest.param(b"br", brotli.compress(TEXT) * 2, id="br twice"),
        pytest.param(b"zstd", zstd_stream(TEXT) * 2, id="zstd of two frames"),
        pytest.param(b"zstd", b"\x50\x2a\x4d\x18\x01\0\0\0x" + zstd_stream(TEXT), id="zstd with a frame to skip"),
        pytest.param(b"zstd", zstd_checked(TEXT)[:-1] + b"\0", id="zstd with a wrong checksum"),
        pytest.param(b"zstd", zstd_wide(TEXT), id="zstd with a window of 16 MiB"),
    ],
)
def test_a_malformed_stream(coding: bytes, body: bytes) -> None:
    """A stream that is not exactly one sound stream of its format is malformed."""
    assert fault_of((coding,), body) is CodingFault.MALFORMED


def test_a_stream_that_needs_a_dictionary() -> None:
    """A dictionary that both sides would have to know is not known here."""
    stream = zlib.compressobj(zdict=b"items" * 10)
    assert fault_of((b"deflate",), stream.compress(TEXT) + stream.flush()) is CodingFault.MALFORMED


def test_gzip_members() -> None:
    """A gzip body may have up to 16 members (RFC 1952, 2.2), and the limit counts all of them."""
    assert decode((b"gzip",), gzip.compress(b"a") * 16, limit=16)[-1] == b"a" * 16
    assert fault_of((b"gzip",), gzip.compress(b"a") * 16, 15) is CodingFault.TOO_LARGE
    assert fault_of((b"gzip",), gzip.compress(b"ab") * 16, 15) is CodingFault.TOO_LARGE
    assert fault_of((b"gzip",), gzip.compress(b"a") * 3, 2) is CodingFault.TOO_LARGE


def test_codings_come_off_in_reverse_order() -> None:
    """Several codings are taken off last one first, and every step is there to be looked at (RFC 9110, 8.4)."""
    once = gzip.compress(TEXT)
    twice = brotli.compress(once)
    assert decode((b"gzip", b"br"), twice, limit=4096) == (twice, once, TEXT)
    assert fault_of((b"br", b"gzip"), brotli.compress(once)) is CodingFault.MALFORMED


def test_each_step_is_held_to_the_limit() -> None:
    """A step in between may not be larger than the limit either."""
    once = zlib.compress(bytes(range(256)) * 4, level=0)
    assert fault_of((b"deflate", b"gzip"), gzip.compress(once), 1024) is CodingFault.TOO_LARGE


@pytest.mark.parametrize(
    ("codings", "fault"),
    [
        pytest.param((b"compress",), CodingFault.UNKNOWN, id="compress"),
        pytest.param((b"*",), CodingFault.UNKNOWN, id="star"),
        pytest.param((b"gzip;q=1",), CodingFault.UNKNOWN, id="with a parameter"),
        pytest.param((b"aws-chunked", b"gzip"), CodingFault.UNKNOWN, id="unknown below a known one"),
        pytest.param((b"gzip", b"gzip", b"gzip"), CodingFault.TOO_MANY, id="three"),
        pytest.param((b"gzip",) * 10_000, CodingFault.TOO_MANY, id="ten thousand"),
    ],
)
def test_codings_that_are_not_known(codings: tuple[bytes, ...], fault: CodingFault) -> None:
    """Only gzip, deflate, br and zstd are known, at most two of them on one body."""
    assert fault_of(codings, gzip.compress(TEXT)) is fault
    assert MAX_CODINGS == 2


def test_no_coding() -> None:
    """A body without a coding is itself; its size is for others to judge."""
    assert decode((), TEXT, limit=1) == (TEXT,)


@pytest.mark.parametrize("codings", [(), (b"gzip",), (b"unknown",), (b"br",) * 9], ids=len)
def test_an_empty_body_has_nothing_to_decode(codings: tuple[bytes, ...]) -> None:
    """A body that is not there passes whatever coding is named, as it may be of an answer to HEAD."""
    assert decode(codings, b"", limit=1) == (b"",)


def test_a_layer_in_between_that_is_empty_is_no_stream() -> None:
    """Only the body as received may be absent: what is decoded has to be a stream of the next coding."""
    for coding in (b"gzip", b"deflate", b"br", b"zstd"):
        assert fault_of((coding, b"gzip"), gzip.compress(b"")) is CodingFault.MALFORMED


@pytest.mark.parametrize(
    ("values", "codings"),
    [
        pytest.param([], (), id="no field"),
        pytest.param([b""], (), id="empty"),
        pytest.param([b"identity"], (), id="identity"),
        pytest.param([b"GZIP"], (b"gzip",), id="upper case"),
        pytest.param([b"gzip, br"], (b"gzip", b"br"), id="list"),
        pytest.param([b"gzip", b" zstd\t"], (b"gzip", b"zstd"), id="two fields"),
        pytest.param([b", gzip,, Identity ,"], (b"gzip",), id="empty elements"),
        pytest.param([b"gzip br"], (b"gzip br",), id="space inside"),
        pytest.param([b"\xa0gzip"], (b"\xa0gzip",), id="white space that is none"),
        pytest.param([b" " * 60_000 + b"," + b"\t" * 60_000], (), id="much white space"),
    ],
)
def test_the_field_is_read(values: list[bytes], codings: tuple[bytes, ...]) -> None:
    """`Content-Encoding` is a list in the order of application, without regard to case (RFC 9110, 8.4)."""
    fields = tuple((name, value) for value in values for name in (b"CONTENT-Encoding",))
    assert content_codings(((b"Accept-Encoding", b"br"), *fields)) == codings


def zstd_bomb() -> bytes:
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    block = bytes(1 << 20)
    return b"".join(stream.compress(block) for _ in range(512)) + stream.flush()


def zstd_bomb_with_size() -> bytes:
    return zstandard.compress(bytes(64 << 20))


def gzip_bomb() -> bytes:
    stream = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 20)
    return b"".join(stream.compress(block) for _ in range(16)) + stream.flush()


def brotli_bomb() -> bytes:
    stream = brotli.Compressor(quality=1)
    block = bytes(1 << 20)
    return b"".join(stream.process(block) for _ in range(64)) + bytes(stream.finish())


@pytest.mark.parametrize(
    ("coding", "make"),
    [
        pytest.param(b"gzip", gzip_bomb, id="gzip of 16 MiB"),
        pytest.param(b"br", brotli_bomb, id="br of 64 MiB"),
        pytest.param(b"zstd", zstd_bomb, id="zstd of 512 MiB"),
        pytest.param(b"zstd", zstd_bomb_with_size, id="zstd of 64 MiB that says so"),
    ],
)
def test_a_bomb_costs_no_more_than_its_limit(coding: bytes, make: Callable[[], bytes]) -> None:
    """The limit holds while the body is decoded, so what it costs is the limit's and not the bomb's."""
    bomb = make()
    assert len(bomb) < 100_000
    tracemalloc.start()
    assert fault_of((coding,), bomb) is CodingFault.TOO_LARGE
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
