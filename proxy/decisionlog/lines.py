"""A record as one JSON line. The keys and their order are fixed, so the line is put together by hand.

The text is ASCII: whatever a name holds, a line is one line, and a terminal that shows it raw stays as it was.

Most of a line is the same from one request to the next: what the settings and the grant name, and the words of the
code. The text between the values that differ is remembered by all the values that it is made of, so it is what it would
be if it were made again. The box is left out, since each box would need a text of its own for each operation, and so
are the host and the labels, which a client can make up. What is remembered is at most `_MOST_KEPT` times
`_LONGEST_KEPT` characters of text, 2 MiB, and the values behind it: they have no more characters than the text, and are
mostly those that the grants hold anyway.
"""

import time
from hashlib import sha256
from json.encoder import encode_basestring_ascii as _quote
from typing import Final

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
_MOST_KEPT: Final = 1024
_LONGEST_KEPT: Final = 2048
_EMPTY: Final = sha256()

type _Texts = tuple[str, str, str, str, str, str, str]

_digits: Final = int.__repr__  # of any integer, as `:d`, which takes twice as long
_kept: dict[tuple[object, ...], _Texts] = {}


def digest(line: bytes) -> str:
    """The link to a line: SHA-256, in hex, of its bytes without the line end."""
    hashed = _EMPTY.copy()  # which is cheaper than one that OpenSSL looks up
    hashed.update(line)
    return hashed.hexdigest()


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


def _texts(record: Record) -> _Texts:
    """What stands between the values of a line that differ from request to request."""
    return (
        f',"event":{_quote(record.event)},"mode":{_quote(record.mode)},"box":',
        f',"endpoint":{_text(record.endpoint)},"host":',
        f',"method":{_text(record.method)},"assurance":{_text(record.assurance)},"verdict":{_quote(record.verdict)}'
        f',"rule":{_text(record.rule)},"reason":{_text(record.reason)},"operation":{_text(record.operation)}'
        f',"effect":{_text(record.effect)},"route":{_text(record.route)},"resource_digest":',
        f',"redirect_hops":{record.redirect_hops:d},"final_host":{_text(record.final_host)}'
        f',"final_operation":{_text(record.final_operation)},"final_effect":{_text(record.final_effect)}'
        f',"final_route":{_text(record.final_route)},"final_resource_digest":',
        f',"status":{_number(record.status)},"upstream_status":{_number(record.upstream_status)},"bytes_out":',
        f',"secret_refs":{_list(record.secret_refs)},"signals":{_list(record.signals)},"labels":',
        f',"grant_digest":{_text(record.grant_digest)}}}',
    )


def _keep(same: tuple[object, ...], record: Record) -> _Texts:
    """Make the texts, and remember them unless they are long."""
    texts = _texts(record)
    if sum(map(len, texts)) <= _LONGEST_KEPT:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()  # what is needed is made again in a few microseconds
        _kept[same] = texts
    return texts


def compose(record: Record, *, ts: str, seq: int, chain: str, prev: str) -> bytes:
    """The record's line, without its line end."""
    same = (
        record.event, record.mode, record.endpoint, record.method, record.assurance, record.verdict, record.rule,
        record.reason, record.operation, record.effect, record.route, record.redirect_hops, record.final_host,
        record.final_operation, record.final_effect, record.final_route, record.status, record.upstream_status,
        record.secret_refs, record.signals, record.grant_digest,
    )  # fmt: skip
    to_box, to_host, to_digest, to_final, to_bytes, to_labels, rest = _kept.get(same) or _keep(same, record)
    duration = record.duration_ms
    if not 0 <= duration < _LONGEST_MS:  # also a value that is no number, which JSON cannot hold
        duration = 0.0
    return (
        f'{{"id":{_quote(record.id)},"ts":"{ts}","seq":{seq},"chain":"{chain}","prev":"{prev}"'
        f"{to_box}{_text(record.box)}{to_host}{_text(record.host)}"
        f"{to_digest}{_text(record.resource_digest)}{to_final}{_text(record.final_resource_digest)}"
        f'{to_bytes}{_digits(record.bytes_out)},"bytes_in":{_digits(record.bytes_in)},"duration_ms":{duration:.3f}'
        f"{to_labels}{_list(record.labels)}{rest}"
    ).encode("ascii")
