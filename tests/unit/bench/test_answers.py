"""The load's count of answers: a 200 of exactly the length, or the run ends with what came."""

import pytest
from bench.answers import Answers, Wrong

HEAD = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\n"


@pytest.mark.parametrize("piece", [1, 2, 7, len(HEAD) - 1, len(HEAD), len(HEAD) + 1, 1000])
def test_pieces_make_no_difference(piece: int) -> None:
    """Answers are counted however they are cut; several come one after the other."""
    answers = Answers(5)
    for _ in range(3):
        wire = HEAD + b"abcde"
        got = [answers.feed(wire[at : at + piece]) for at in range(0, len(wire), piece)]
        assert got == [False] * (len(got) - 1) + [True]
        assert answers.idle


@pytest.mark.parametrize("name", ["Content-Length", "content-length", "Content-length", "CONTENT-LENGTH"])
def test_every_spelling_of_the_length(name: str) -> None:
    """Field names have no case (RFC 9110, 5.1)."""
    answers = Answers(5)
    wire = HEAD.replace(b"Content-Length", name.encode()) + b"abcde"
    assert answers.feed(wire)
    assert answers.feed(wire)


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        pytest.param(HEAD.replace(b"200", b"502") + b"abcde", "502", id="status"),
        pytest.param(HEAD.replace(b"200", b"204") + b"abcde", "204", id="another success"),
        pytest.param(HEAD.replace(b": 5", b": 4") + b"abcd", "4 bytes in place of 5", id="shorter"),
        pytest.param(HEAD.replace(b": 5", b": 50") + b"abcd", "50 bytes in place of 5", id="longer"),
        pytest.param(HEAD + b"abcdef", "1 bytes more", id="a byte too many"),
        pytest.param(HEAD + b"abcde" + HEAD, "bytes more", id="a second answer unasked"),
        pytest.param(HEAD.replace(b"Content-Length: 5", b"X: y") + b"abcde", "no content-length", id="no length"),
        pytest.param(HEAD.replace(b"Content-", b"X-Content-") + b"abcde", "no content-length", id="another name's end"),
        pytest.param(b"SSH-2.0-x\r\n\r\n", "SSH", id="no HTTP"),
        pytest.param(b"x" * 70000, "no end of the head", id="no end"),
    ],
)
def test_what_is_wrong_is_told(wire: bytes, words: str) -> None:
    """Anything but the answer that was asked for ends the run, and its words hold what came."""
    with pytest.raises(Wrong, match=words):
        Answers(5).feed(wire)


def test_in_the_middle_is_not_idle() -> None:
    """A connection that ends inside of an answer is told apart from one that ends between two."""
    answers = Answers(5)
    answers.feed(HEAD[:10])
    assert not answers.idle
    answers.feed(HEAD[10:] + b"ab")
    assert not answers.idle
