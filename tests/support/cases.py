"""Conformance cases: YAML rows that the core runs as values and the fronts run over sockets.

A file is one kind of fault or freedom. Its `grant`, `request`, `expect`, `layers`, `fronts` and `prefix` hold for each
row that does not say otherwise. In texts every character stands for the byte of its code point, so that `"\\xff"` is
that byte; `$HOST`, `$PORT` and `$OTHER` are put in when a row is run.

Row: `id`; `request` {method, target, host, headers, headers_repeat, body, chunks, raw}; what upstreams answer, as
`answer` {status, reason, content_type, headers, headers_repeat, body, chunks, trailers, steps} or, for redirects,
`location`, `status`, `body` and `then`; `expect`, which is {deny, rule, status} or {allow, sent, relayed, hops, final}.
A list in place of a word means any of them.
"""

import base64
import gzip
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import brotli
import pytest
import yaml
import zstandard
from support.upstream import CLOSE, RESET, Step

FOLDER = Path(__file__).resolve().parents[1] / "conformance"
SECRETS: Mapping[str, str] = {
    "api": "sk-api/0123456789",
    "a": "aaaa-1111-aaaa",
    "b": "bbbb-2222-bbbb",
    "gh": "gh-token-77777777",
}
"""What every endpoint of the suite holds, by reference name."""
REQUEST_RULES = {"semantic-request-deny", "bad-request", "misdirected", "denied", "unresolved-secret-ref"}
"""Rules of refusals that come before anything is sent."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the placeholders stand for."""

    host: str
    port: int
    other: str

    def put_in(self, data: bytes) -> bytes:
        for name, value in (
            (b"$HOST_UPPER", self.host.upper()),
            (b"$HOST", self.host),
            (b"$PORT", str(self.port)),
            (b"$OTHER", self.other),
        ):
            data = data.replace(name, value.encode())
        return data


def data(spec: Any) -> bytes:
    """The bytes that a row describes."""
    if isinstance(spec, str):
        return spec.encode("latin-1")
    if spec is None:
        return b""
    before, after = data(spec.get("before")), data(spec.get("after"))
    if "repeat" in spec:
        return before + data(spec["repeat"]) * spec["times"] + after
    if "concat" in spec:
        return b"".join(data(part) for part in spec["concat"])
    for name, encode in _ENCODERS.items():
        if name in spec:
            return before + encode(data(spec[name])) + after
    raise ValueError(f"unknown form {spec}")


_ENCODERS = {
    "base64": base64.b64encode,
    "gzip": lambda plain: gzip.compress(plain, mtime=0),
    "deflate": zlib.compress,
    "br": lambda plain: brotli.compress(plain, quality=1),
    "zstd": lambda plain: zstandard.ZstdCompressor().compress(plain),
}


def fields(spec: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """The field lines that a row describes."""
    found = [(data(name), data(value)) for name, value in spec.get("headers", ())]
    if many := spec.get("headers_repeat"):
        found += [(f"{many['name']}{number}".encode(), data(many["value"])) for number in range(many["count"])]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The request of a row."""

    spec: Mapping[str, Any]
    prefix: str = ""

    @property
    def method(self) -> str:
        return self.spec.get("method", "POST" if self.prefix.startswith("POST") else "GET")

    @property
    def target(self) -> bytes:
        return data(self.spec["target"])

    @property
    def raw(self) -> bool:
        return "raw" in self.spec

    @property
    def chunked(self) -> bool:
        return "chunks" in self.spec

    @property
    def body(self) -> bytes | None:
        if self.chunked:
            return b"".join(data(chunk) for chunk in self.spec["chunks"])
        return data(self.spec["body"]) if "body" in self.spec else None

    def head_fields(self) -> list[tuple[bytes, bytes]]:
        """The field lines without Host; with the framing field of the body."""
        found = fields(self.spec)
        if self.chunked:
            found.append((b"Transfer-Encoding", b"chunked"))
        elif self.body is not None:
            found.append((b"Content-Length", str(len(self.body)).encode()))
        return found

    def wire(self, names: Names) -> bytes:
        """The bytes on the wire."""
        if self.raw:
            return names.put_in(data(self.prefix) + data(self.spec["raw"]))
        host = self.spec.get("host", "$HOST")
        lines = [b"%s %s HTTP/1.1" % (data(self.method), self.target)]
        lines += [b"Host: " + data(host)] if host is not None else []
        lines += [name + b": " + value for name, value in self.head_fields()]
        wire = names.put_in(b"\r\n".join(lines) + b"\r\n\r\n")
        if self.chunked:
            parts = [data(chunk) for chunk in self.spec["chunks"]]
            return wire + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        return wire + (self.body or b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """One answer of an upstream in a row."""

    spec: Mapping[str, Any]

    @property
    def status(self) -> int:
        return self.spec.get("status", 200)

    @property
    def reason(self) -> bytes:
        return data(self.spec.get("reason", "Whatever"))

    @property
    def body(self) -> bytes:
        if "chunks" in self.spec:
            return b"".join(data(chunk) for chunk in self.spec["chunks"])
        return data(self.spec.get("body"))

    @property
    def trailers(self) -> list[tuple[bytes, bytes]]:
        return [(data(name), data(value)) for name, value in self.spec.get("trailers", ())]

    def head_fields(self) -> list[tuple[bytes, bytes]]:
        """The field lines, with the framing field of the body."""
        found = fields(self.spec)
        if (kind := self.spec.get("content_type", "application/json")) is not None:
            found.insert(0, (b"Content-Type", data(kind)))
        if "chunks" in self.spec:
            found.append((b"Transfer-Encoding", b"chunked"))
        elif self.spec.get("body") is not None:
            found.append((b"Content-Length", str(len(self.body)).encode()))
        return found

    def steps(self, names: Names) -> Sequence[Step]:
        """What the upstream does on the wire."""
        if "steps" in self.spec:
            marks = {"CLOSE": CLOSE, "RESET": RESET}
            return [
                marks.get(step, names.put_in(data(step)) if isinstance(step, str) else step)
                if isinstance(step, str)
                else step
                for step in self.spec["steps"]
            ]
        lines = [b"HTTP/1.1 %d %s" % (self.status, self.reason)]
        lines += [name + b": " + value for name, value in self.head_fields()]
        head = names.put_in(b"\r\n".join(lines) + b"\r\n\r\n")
        if "chunks" not in self.spec:
            return [head + self.body]
        parts: list[Step] = [b"%x\r\n%s\r\n" % (len(part), part) for part in map(data, self.spec["chunks"])]
        trailers = b"".join(name + b": " + value + b"\r\n" for name, value in self.trailers)
        return [head, *parts, b"0\r\n" + trailers + b"\r\n"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The decision of a row."""

    allow: str | None = None
    deny: tuple[str, ...] = ()
    rule: tuple[str, ...] = ()
    status: tuple[int, ...] = ()
    sent: Mapping[str, Any] = field(default_factory=dict)
    relayed: Mapping[str, Any] = field(default_factory=dict)
    hops: Sequence[Mapping[str, Any]] = ()
    final: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row."""

    kind: str
    id: str
    grant: str
    layers: frozenset[str]
    fronts: frozenset[str]
    request: Sending
    answers: tuple[Answering, ...]
    core: Expected
    front: Expected

    @property
    def dark(self) -> bool:
        """Whether nothing may reach an upstream, so that the row is run where a bare port stands for it."""
        return not self.answers and self.front.allow is None


def load_cases() -> list[Case]:
    """Every row of every file, in order."""
    return [case for path in sorted((FOLDER / "cases").glob("*.yaml")) for case in _load(path)]


def params(layer: str) -> list[Any]:
    """The rows of one layer, as pytest parameters with ids."""
    return [pytest.param(case, id=f"{case.kind}/{case.id}") for case in load_cases() if layer in case.layers]


@cache
def grant_text(name: str, other: str) -> str:
    """The text of a grant of the suite."""
    return (FOLDER / "grants" / f"{name}.yaml").read_text().replace("$OTHER", other)


def grant_names() -> list[str]:
    """The names of the suite's grants."""
    return sorted(path.stem for path in (FOLDER / "grants").glob("*.yaml"))


def _load(path: Path) -> list[Case]:
    document = yaml.safe_load(path.read_text())
    cases = []
    for row in document["cases"]:
        core = _expected(document.get("expect"), row.get("expect"))
        cases.append(
            Case(
                kind=path.stem,
                id=row["id"],
                grant=row.get("grant", document["grant"]),
                layers=frozenset(row.get("layers", document.get("layers", ["core", "front"]))),
                fronts=frozenset(row.get("fronts", document.get("fronts", ["base", "proxy"]))),
                request=Sending(
                    spec={**document.get("request", {}), **row.get("request", {})}, prefix=document.get("prefix", "")
                ),
                answers=tuple(_answers(row)),
                core=core,
                front=_expected(None, row["expect_front"]) if "expect_front" in row else core,
            )
        )
    return cases


def _answers(row: Mapping[str, Any]) -> list[Answering]:
    if "answer" in row:
        return [Answering(spec=row["answer"])]
    if "location" not in row:
        return []
    hops = [row, *row.get("then", ())]
    found = []
    for hop in hops:
        headers = [["Location", hop["location"]]] if hop["location"] is not None else []
        found.append(
            Answering(
                spec={
                    "status": hop.get("status", 302),
                    "content_type": None,
                    "headers": headers,
                    "body": hop.get("body", ""),
                }
            )
        )
    return found


def _expected(default: Mapping[str, Any] | None, own: Mapping[str, Any] | None) -> Expected:
    found = dict(own or {})
    if "allow" in found:
        return Expected(**found)
    found = {"rule": "semantic-request-deny", "status": 403, **(default or {}), **found}
    return Expected(deny=_several(found["deny"]), rule=_several(found["rule"]), status=_several(found["status"]))


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)
