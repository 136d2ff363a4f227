"""The APIs that real clients ask, by host: small, but shaped as those clients need them.

All demand the real credential where an API would, so that a client that gets its answer has proved that the proxy put
it in.
"""

import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from support.clients import SECRET
from support.upstream import Received, answer

type Api = Callable[[Received], bytes]
_SSE = "text/event-stream"


def document(value: object, status: int = 200, *fields: tuple[str, str]) -> bytes:
    """A JSON answer."""
    return answer(status, json.dumps(value).encode(), *fields)


def denied(scheme: str = "Bearer") -> bytes:
    """What an API says to a client without its credential."""
    challenge = ("WWW-Authenticate", f'{scheme} realm="x"')
    return answer(401, b'{"message": "who are you?"}', challenge, reason="Unauthorized")


def hello(request: Received) -> bytes:
    """`GET /hello` and `POST /items`, for the bearer."""
    if request.get("authorization") != f"Bearer {SECRET}".encode():
        return denied()
    if request.method == b"POST":
        return document({"hello": json.loads(request.body)["title"]}, 201)
    return document({"hello": "world"})


def models(request: Received) -> bytes:
    """Messages and chat completions, whole or streamed."""
    shown = request.get("x-api-key") or (request.get("authorization") or b"").removeprefix(b"Bearer ")
    if shown != SECRET.encode():
        return denied()
    asked = json.loads(request.body)
    if request.target.startswith(b"/v1/messages"):
        return _events(_MESSAGE_EVENTS) if asked.get("stream") else document(_MESSAGE)
    if asked.get("stream"):
        return _events([("", _chunk({"content": word})) for word in ("Good ", "day")] + [("", "[DONE]")])
    return document(_completion({"role": "assistant", "content": "Good day"}))


_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m-1",
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "content": [{"type": "text", "text": "Good day"}],
    "usage": {"input_tokens": 1, "output_tokens": 2},
}
_MESSAGE_EVENTS: list[tuple[str, Any]] = [
    ("message_start", {"type": "message_start", "message": {**_MESSAGE, "content": [], "stop_reason": None}}),
    ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    *(
        (
            "content_block_delta",
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}},
        )
        for word in ("Good ", "day")
    ),
    ("content_block_stop", {"type": "content_block_stop", "index": 0}),
    ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
    ("message_stop", {"type": "message_stop"}),
]


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c-1", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice]}


def _chunk(delta: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}


def _events(events: list[tuple[str, Any]]) -> bytes:
    """Server-sent events, chunked, one a chunk."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {_SSE}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    body = b""
    for name, data in events:
        text = data if isinstance(data, str) else json.dumps(data)
        event = (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
        body += b"%x\r\n%s\r\n" % (len(event), event)
    return head + body + b"0\r\n\r\n"


def github(request: Received) -> bytes:
    """A repository and its issues, under the path of GitHub Enterprise Server."""
    shown = (request.get("authorization") or b"").split(b" ")[-1]
    if shown != SECRET.encode():
        return denied()
    path = request.target.partition(b"?")[0].decode().removeprefix("/api/v3")
    repository = {
        "id": 1,
        "name": "widgets",
        "full_name": "acme/widgets",
        "url": "https://github.example/api/v3/repos/acme/widgets",
    }
    issue = {"id": 2, "number": 7, "title": "It squeaks", "state": "open"}
    found: dict[str, object] = {
        "/repos/acme/widgets": repository,
        "/repos/acme/widgets/issues": [issue],
        "/repos/acme/widgets/issues/7": issue,
    }
    return document(found[path]) if path in found else document({"message": "Not Found"}, 404)


def bucket(request: Received) -> bytes:
    """One public object."""
    if request.get("authorization") is not None:
        return answer(
            403, b"<Error><Code>AccessDenied</Code></Error>", content_type="application/xml", reason="Forbidden"
        )
    return answer(200, b"public", ("ETag", '"1"'), content_type="text/plain")


# --- registries ---


def wheel() -> bytes:
    """The package `demo_of_ours` 1.0."""
    data = io.BytesIO()
    info = "demo_of_ours-1.0.dist-info"
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("demo_of_ours.py", "GREETING = 'installed'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: demo-of-ours\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", f"demo_of_ours.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return data.getvalue()


def tarball() -> bytes:
    """The package `demo-of-ours` 1.0.0, as npm packs it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in (
            ("package.json", '{"name": "demo-of-ours", "version": "1.0.0", "main": "index.js"}'),
            ("index.js", "module.exports = 'installed'\n"),
        ):
            found = tarfile.TarInfo(f"package/{name}")
            found.size = len(text)
            archive.addfile(found, io.BytesIO(text.encode()))
    return data.getvalue()


WHEEL, TARBALL = wheel(), tarball()


def python_index(request: Received) -> bytes:
    """The simple API, for the bearer of the real credential (Basic)."""
    if request.get("authorization") != b"Basic " + base64.b64encode(f"__token__:{SECRET}".encode()):
        return denied("Basic")
    if request.target == b"/simple/demo-of-ours/":
        digest = hashlib.sha256(WHEEL).hexdigest()
        page = (
            f'<a href="/files/demo_of_ours-1.0-py3-none-any.whl#sha256={digest}">demo_of_ours-1.0-py3-none-any.whl</a>'
        )
        return answer(200, page.encode(), content_type="text/html")
    if request.target.startswith(b"/files/"):
        return answer(200, WHEEL, content_type="application/octet-stream")
    return answer(404, b"no", reason="Not Found")


def npm_registry(request: Received) -> bytes:
    """A packument and its tarball, for the bearer."""
    if request.get("authorization") != f"Bearer {SECRET}".encode():
        return denied()
    if request.target == b"/demo-of-ours":
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(TARBALL).digest()).decode()
        dist = {"tarball": "https://npm.example/demo-of-ours/-/demo-of-ours-1.0.0.tgz", "integrity": integrity}
        version = {"name": "demo-of-ours", "version": "1.0.0", "main": "index.js", "dist": dist}
        return document({"name": "demo-of-ours", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}})
    if request.target.endswith(b".tgz"):
        return answer(200, TARBALL, content_type="application/octet-stream")
    return document({"error": "Not found"}, 404)


def crate() -> bytes:
    """The crate `demo-of-ours` 1.0.0."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in (
            ("Cargo.toml", '[package]\nname = "demo-of-ours"\nversion = "1.0.0"\nedition = "2021"\n'),
            ("src/lib.rs", 'pub const GREETING: &str = "installed";\n'),
        ):
            found = tarfile.TarInfo(f"demo-of-ours-1.0.0/{name}")
            found.size = len(text)
            archive.addfile(found, io.BytesIO(text.encode()))
    return data.getvalue()


CRATE = crate()


def crates_index(request: Received) -> bytes:
    """A sparse index (https://doc.rust-lang.org/cargo/reference/registry-index.html) with one crate."""
    if request.target == b"/config.json":
        return document({"dl": "https://crates.example/download/{crate}/{version}"})
    if request.target == b"/de/mo/demo-of-ours":
        checksum = hashlib.sha256(CRATE).hexdigest()
        line = {"name": "demo-of-ours", "vers": "1.0.0", "deps": [], "cksum": checksum, "features": {}, "yanked": False}
        return answer(200, json.dumps(line).encode() + b"\n", content_type="text/plain")
    if request.target.startswith(b"/download/"):
        return answer(200, CRATE, content_type="application/gzip")
    return answer(404, b"", content_type="text/plain", reason="Not Found")


# --- git ---


@dataclass(frozen=True, slots=True)
class GitServer:
    """`git http-backend` over the repositories of a folder, for `x-access-token` with the real credential."""

    root: Path

    def __call__(self, request: Received) -> bytes:
        if request.get("authorization") != b"Basic " + base64.b64encode(f"x-access-token:{SECRET}".encode()):
            return denied("Basic")
        path, _, query = request.target.decode().partition("?")
        variables = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "http.receivepack",
            "GIT_CONFIG_VALUE_0": "true",
            "GIT_CONFIG_KEY_1": "safe.directory",
            "GIT_CONFIG_VALUE_1": "*",
            "PATH_INFO": unquote(path),
            "QUERY_STRING": query,
            "REQUEST_METHOD": request.method.decode(),
            "REMOTE_USER": "agent",
            "CONTENT_LENGTH": str(len(request.body)),
        }
        for field, variable in (
            ("content-type", "CONTENT_TYPE"),
            ("content-encoding", "HTTP_CONTENT_ENCODING"),
            ("git-protocol", "GIT_PROTOCOL"),
        ):
            if (value := request.get(field)) is not None:
                variables[variable] = value.decode()
        done = subprocess.run(
            ["git", "http-backend"], env=variables, input=request.body, capture_output=True, check=False, timeout=60
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = [tuple(line.split(": ", 1)) for line in head.decode().splitlines()]
        status = next((int(value.split()[0]) for name, value in fields if name == "Status"), 200)
        shown = [(name, value) for name, value in fields if name != "Status"]
        return answer(status, body, *shown, content_type=None)


def answering(apis: dict[str, Api]) -> Api:
    """Each host's own API."""

    def answered(request: Received) -> bytes:
        api = apis.get((request.get("host") or b"").decode())
        return answer(421, b"", reason="Misdirected Request") if api is None else api(request)

    return answered
