"""Stand-ins for what a broker stands before: the Anthropic API, Fountain, and the one host of a secret.

Each listens on loopback and records every request that reaches it, whole. The first answers a structured request from
its schema, and streams when it is asked to: the second event waits until the test has seen the first. The last repeats
the authorization it was sent in a header, as an API that echoes its key would.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

FIRST_EVENT = b'event: message_start\ndata: {"type": "message_start"}\n\n'
LAST_EVENT = b'event: message_stop\ndata: {"type": "message_stop"}\n\n'
HOLD_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it reached a stand-in: `target` is path and query, field names are in lower case."""

    upstream: str
    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    body: bytes

    def field(self, name: str) -> str | None:
        return next((value for key, value in self.fields if key == name), None)

    def __str__(self) -> str:
        return f"{self.upstream} {self.method} {self.target}"


def instance(schema: Any) -> Any:
    """A value that fits a schema of structured output: the first of an enum, 1 shared by the numbers of an object."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            numbers = sum(below.get("type") == "number" for below in properties.values())
            return {
                key: 1 / numbers if below.get("type") == "number" else instance(below)
                for key, below in properties.items()
            }
        case "array":
            return []
        case "number" | "integer":
            return 0
        case "boolean":
            return True
        case _:
            return "because the stand-in says so"


class Standins:
    """The three stand-ins, started by `with`.

    Args:
        ports: of the Anthropic API, Fountain and the echo host; 0 for a free one.
    """

    def __init__(self, ports: tuple[int, int, int] = (0, 0, 0)) -> None:
        self.received: list[Received] = []
        self.first_event_seen = threading.Event()
        self.held_back_until_seen = False
        answers = {"anthropic": self._anthropic, "fountain": self._fountain, "egress": self._egress}
        self._servers = {
            name: ThreadingHTTPServer(("127.0.0.1", port), self._handler(name, answer))
            for (name, answer), port in zip(answers.items(), ports, strict=True)
        }
        for server in self._servers.values():
            server.daemon_threads = True

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._servers[name].server_port}"

    def __enter__(self) -> Self:
        for server in self._servers.values():
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def _handler(self, name: str, answer: Callable[["_Handler", Received], None]) -> type["_Handler"]:
        received = self.received

        class Handler(_Handler):
            def handle_any(self) -> None:
                request = Received(
                    upstream=name,
                    method=self.command,
                    target=self.path,
                    fields=tuple((key.lower(), value) for key, value in self.headers.items()),
                    body=self.body(),
                )
                received.append(request)
                answer(self, request)

        return Handler

    def _anthropic(self, handler: "_Handler", request: Received) -> None:
        path = request.target.partition("?")[0]
        if request.method == "GET" and path.startswith("/v1/models"):
            handler.json(200, {"data": [{"id": "claude-conformance", "type": "model"}], "has_more": False})
        elif request.method == "POST" and path == "/v1/messages/count_tokens":
            handler.json(200, {"input_tokens": 1})
        elif request.method == "POST" and path == "/v1/messages":
            asked = json.loads(request.body)
            if asked.get("stream"):
                self._stream(handler)
                return
            schema = asked.get("output_config", {}).get("format", {}).get("schema")
            text = "conformance" if schema is None else json.dumps(instance(schema))
            message = {
                "id": "msg_conformance",
                "type": "message",
                "role": "assistant",
                "model": asked.get("model"),
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            handler.json(200, message)
        else:
            handler.json(404, {"type": "error", "error": {"type": "not_found_error", "message": "not here"}})

    def _stream(self, handler: "_Handler") -> None:
        handler.start(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
        handler.chunk(FIRST_EVENT)
        self.held_back_until_seen = self.first_event_seen.wait(HOLD_SECONDS)
        handler.chunk(LAST_EVENT)
        handler.chunk(b"")

    def _fountain(self, handler: "_Handler", request: Received) -> None:
        handler.json(200, {"path": request.target})

    def _egress(self, handler: "_Handler", request: Received) -> None:
        handler.json(200, {"path": "/"}, [("x-conformance-echo", request.field("authorization") or "")])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        raise NotImplementedError

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = lambda self: self.handle_any()  # noqa: N815

    def body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def start(self, status: int, fields: list[tuple[str, str]]) -> None:
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()

    def json(self, status: int, document: Any, fields: list[tuple[str, str]] | None = None) -> None:
        body = json.dumps(document).encode()
        length = ("content-length", str(len(body)))
        self.start(status, [("content-type", "application/json"), length, *(fields or [])])
        self.wfile.write(body)

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing goes to the terminal."""
