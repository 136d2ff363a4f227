"""Secrets are read at use: a rotated one is seen without a restart, and the one before stays forbidden in answers."""

from pathlib import Path
from typing import Any

from support.upstream import answer
from support.waits import wait_for


def test_rotated_file(make_stack: Any, tmp_path: Path) -> None:
    """A new value in the file is sent soon after; the old one is still not shown."""
    file = tmp_path / "token"
    file.write_text("first-token-11111\n")
    stack = make_stack(endpoint={"secrets": {"api": f"file:{file}"}})
    assert _sent(stack) == b"Bearer first-token-11111"
    file.write_text("second-token-2222\n")
    wait_for(lambda: _sent(stack) == b"Bearer second-token-2222")
    stack.upstream.handler = lambda request: answer(200, b'{"id":1,"note":"first-token-11111"}')
    with stack.open("base") as client:
        shown = client.exchange(stack.get("base"))
    assert shown.status == 502
    assert stack.proxy.new_records()[-1]["rule"] == "semantic-response-credential"


def test_emptied_file(make_stack: Any, tmp_path: Path) -> None:
    """A value that is gone is a 502, and nothing is sent."""
    file = tmp_path / "token"
    file.write_text("first-token-11111")
    stack = make_stack(endpoint={"secrets": {"api": f"file:{file}"}})
    assert _sent(stack) == b"Bearer first-token-11111"
    file.write_text("")
    before = 0

    def refused() -> bool:
        nonlocal before
        before = len(stack.upstream.requests)
        with stack.open("base") as client:
            return bool(client.exchange(stack.get("base", "/info", "Authorization: Bearer @secret:api")).status == 502)

    wait_for(refused)
    assert len(stack.upstream.requests) == before
    record = stack.proxy.new_records()[-1]
    assert (record["rule"], record["reason"]) == ("unresolved-secret-ref", "reference-empty")


def test_command(make_stack: Any) -> None:
    """`exec:` is what the command prints, less one line end."""
    stack = make_stack(endpoint={"secrets": {"api": "exec:printf 'from-a-command\\n'"}})
    assert _sent(stack) == b"Bearer from-a-command"


def _sent(stack: Any) -> bytes | None:
    with stack.open("base") as client:
        assert client.exchange(stack.get("base", "/info", "Authorization: Bearer @secret:api")).status == 200
    return stack.upstream.requests[-1].get("authorization")
