"""A record as one JSON line. The keys and their order are fixed, so the line is put together by hand.

The text is ASCII: whatever a name holds, a line is one line, and a terminal that shows it raw stays as it was.
"""

import time
from hashlib import sha256
from json.encoder import encode_basestring_ascii as _quote

from addons.record import Record

FIELDS = (
    "id", "ts", "seq", "chain", "prev", "event", "mode", "box", "endpoint", "host", "method", "assurance", "verdict",
    "rule", "reason", "operation", "effect", "route", "resource_digest", "redirect_hops", "final_host",
    "final_operation", "final_effect", "final_route", "final_resource_digest", "status",
    "upstream_status", "bytes_out", "bytes_in", "duration_ms", "secret_refs", "signals", "labels", "grant_digest",
)  # fmt: skip
"""The keys of a record, in their order."""

FIRST_PREV = "0" * 64
"""`prev` of the first line of a file."""

_LONGEST_MS = 1e12


def digest(line: bytes) -> str:
    """The link to a line: SHA-256, in hex, of its bytes without the line end."""
    return sha256(line).hexdigest()


def _text(value: str | None) -> str:
    return "null" if value is None else _quote(value)


def _number(value: int | None) -> str:
    return "null" if value is None else f"{value:d}"


def _list(values: tuple[str, ...]) -> str:
    return "[" + ",".join(map(_quote, values)) + "]" if values else "[]"


class Stamp:
    """Time stamps in RFC 3339 form, UTC, with milliseconds. The second's text is made once."""

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def at(self, nanoseconds: int) -> str:
        """The stamp of a time since the epoch."""
        second, rest = divmod(nanoseconds, 1_000_000_000)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._text}.{rest // 1_000_000:03d}Z"


def compose(record: Record, *, ts: str, seq: int, chain: str, prev: str) -> bytes:
    """The record's line, without its line end."""
    duration = record.duration_ms
    if not 0 <= duration < _LONGEST_MS:  # also a value that is no number, which JSON cannot hold
        duration = 0.0
    return (
        f'{{"id":{_quote(record.id)},"ts":"{ts}","seq":{seq},"chain":"{chain}","prev":"{prev}"'
        f',"event":{_quote(record.event)},"mode":{_quote(record.mode)},"box":{_text(record.box)}'
        f',"endpoint":{_text(record.endpoint)},"host":{_text(record.host)},"method":{_text(record.method)}'
        f',"assurance":{_text(record.assurance)},"verdict":{_quote(record.verdict)},"rule":{_text(record.rule)}'
        f',"reason":{_text(record.reason)},"operation":{_text(record.operation)},"effect":{_text(record.effect)}'
        f',"route":{_text(record.route)},"resource_digest":{_text(record.resource_digest)}'
        f',"redirect_hops":{record.redirect_hops:d},"final_host":{_text(record.final_host)}'
        f',"final_operation":{_text(record.final_operation)},"final_effect":{_text(record.final_effect)}'
        f',"final_route":{_text(record.final_route)},"final_resource_digest":{_text(record.final_resource_digest)}'
        f',"status":{_number(record.status)},"upstream_status":{_number(record.upstream_status)}'
        f',"bytes_out":{record.bytes_out:d},"bytes_in":{record.bytes_in:d},"duration_ms":{duration:.3f},"secret_refs":{_list(record.secret_refs)}'
        f',"signals":{_list(record.signals)},"labels":{_list(record.labels)}'
        f',"grant_digest":{_text(record.grant_digest)}}}'
    ).encode("ascii")
