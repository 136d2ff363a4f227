"""The rule, and how its refusals read."""

import pytest

from grants.broker.declaration import Declaration, Kept
from grants.broker.refusals import refusal_body, refusal_document
from grants.broker.rule import refusal, refused

DECLARED = Declaration(
    broker="lobby", capabilities=(Kept(name="inference", scope=("agent",)), Kept(name="egress", scope=()))
)


@pytest.mark.parametrize(
    ("declaration", "word", "capability", "scope_word", "said"),
    [
        pytest.param(DECLARED, "lobby", "inference", "agent", None, id="listed"),
        pytest.param(None, "lobby", "inference", "agent", "not reported", id="never reported"),
        pytest.param(DECLARED, "lobby", "feedback", "agent", "declares no `feedback`", id="no entry"),
        pytest.param(DECLARED, "other", "inference", "agent", "broker `other`", id="kept under another word"),
        pytest.param(DECLARED, "lobby", "inference", "decide", "which lists: agent", id="word missing"),
        pytest.param(DECLARED, "lobby", "inference", "age", "does not list `age`", id="part of a word"),
        pytest.param(DECLARED, "lobby", "egress", "STRIPE", "which lists: none", id="empty scope"),
    ],
)
def test_rule(declaration: Declaration | None, word: str, capability: str, scope_word: str, said: str | None) -> None:
    """Refused unless the last report lists the word; the text names capability, word and the entry to add."""
    text = refusal(declaration, word, capability, scope_word)
    if said is None:
        assert text is None
        return
    assert text is not None
    assert said in text
    assert f"`{capability}`" in text
    assert f'"{scope_word}"' in text
    assert not text.endswith(".")


def test_all_words_are_asked() -> None:
    """A request needs all of its words; the first that is missing is told."""
    assert refused(DECLARED, "lobby", "inference", ()) is None
    assert refused(DECLARED, "lobby", "inference", ("agent",)) is None
    missing = refused(DECLARED, "lobby", "inference", ("agent", "decide", "more"))
    assert missing is not None
    assert missing[0] == "decide"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (409, "invalid_request_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (501, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)
def test_refusal_document(status: int, kind: str) -> None:
    """Each refusal is the error document that clients of the Anthropic API know."""
    assert refusal_document(status, "no") == {"type": "error", "error": {"type": kind, "message": "no"}}


def test_refusal_body() -> None:
    """Whatever a message quotes, the body is UTF-8."""
    assert refusal_body(403, 'é "x" \ud800').decode() == (
        '{"type": "error", "error": {"type": "permission_error", "message": "é \\"x\\" \\ud800"}}'
    )
