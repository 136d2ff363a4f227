"""The broker as a process: with the real Anthropic client, several processes on one database, and many boxes."""

import asyncio
import json
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, PermissionDeniedError
from support.certificates import make_certificates
from support.postgres import Postgres
from support.postgres import running as postgres_server
from support.proxyproc import Proxy, StartFailed, address
from support.upstream import Upstream
from support.waits import wait_for

HOUSE = "sk-ant-api03-house-0123456789"
TOKEN = "token-of-box-one-0123456789abcdef"

EVENTS = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m",
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "first"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "second"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 2},
    },
    {"type": "message_stop"},
]  # fmt: skip
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
    "stop_sequence": None, "content": [{"type": "text", "text": "whole"}],
    "usage": {"input_tokens": 1, "output_tokens": 2},
}  # fmt: skip


class Api:
    """Answers as the Anthropic API does; the second piece of text waits until the first was seen."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self.seen = threading.Event()
        self.waited = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.keys.append(self.headers["x-api-key"])
                self.send_response(200)
                if not asked.get("stream"):
                    body = json.dumps(MESSAGE).encode()
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for event in EVENTS:
                    if event.get("delta", {}).get("text") == "second":  # type: ignore[attr-defined]
                        outer.waited = outer.seen.wait(10)
                    data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.server.shutdown()
    api.server.server_close()


def settings(url: str, **broker: Any) -> dict[str, Any]:
    return {
        "boxes": [{"name": "one", "token": "env:TOKEN"}],
        "broker": {
            "listen": "127.0.0.1:0",
            "word": "lobby",
            "anthropic": {"url": url, "credential": "env:HOUSE"},
            **broker,
        },
    }


def start(folder: Path, url: str, **broker: Any) -> Proxy:
    folder.mkdir(exist_ok=True)
    return Proxy(folder, settings(url, **broker), {"TOKEN": TOKEN, "HOUSE": HOUSE})


def call(proxy: Proxy, method: str, path: str, document: Any, token: str = TOKEN) -> tuple[int, Any]:
    connection = HTTPConnection(*address(proxy.ready["broker"]), timeout=15)
    body = None if document is None else json.dumps(document)
    connection.request(method, path, body, {"authorization": f"Bearer {token}"})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, json.loads(body)


def report(proxy: Proxy, *words: str, token: str = TOKEN, **others: list[str]) -> None:
    scopes = {"inference": list(words), **others}
    entries = [{"name": name, "broker": "lobby", "scope": scope} for name, scope in scopes.items()]
    assert call(proxy, "POST", "/api/box/declaration", {"capabilities": entries}, token)[0] == 200


def test_the_real_client_works(tmp_path: Path, api: Api) -> None:
    """The SDK, with `ANTHROPIC_BASE_URL` and the token as its key: whole, streamed event by event, and refused."""
    url = f"http://127.0.0.1:{api.server.server_port}"
    with start(tmp_path, url) as proxy:
        asked: Any = {"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "x"}]}
        with Anthropic(base_url=f"{proxy.ready['broker']}/llm/anthropic", api_key=TOKEN, max_retries=0) as client:
            with pytest.raises(PermissionDeniedError, match=r"inference.*agent"):
                client.messages.create(**asked)
            assert api.keys == []
            report(proxy, "agent")
            content: Any = client.messages.create(**asked).content
            assert content[0].text == "whole"
            texts = []
            with client.messages.stream(**asked) as stream:
                for text in stream.text_stream:
                    texts.append(text)
                    api.seen.set()
            assert texts == ["first", "second"]
        assert api.waited
        assert api.keys == [HOUSE, HOUSE]
        assert {record["mode"] for record in proxy.records()} == {"broker"}


@pytest.fixture(scope="module")
def untrusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Upstream]]:
    """A broker whose upstreams have a certificate of nobody that it trusts."""
    folder = tmp_path_factory.mktemp("untrusted")
    with Upstream(make_certificates(folder)) as upstream:
        url = f"https://127.0.0.1:{upstream.port}"
        parts = {
            "secrets": [{"name": "API", "host": url, "value": "env:HOUSE"}],
            "fountain": {"url": url, "credential": "env:HOUSE"},
            "feedback": {"url": url},
        }
        with start(folder, url, **parts) as proxy:
            report(proxy, "agent", "decide", egress=["API"], fountain=["conversations"], feedback=["agent"])
            yield proxy, upstream


_DECISION = {"model": "m", "state": 1, "questions": {"q": {"type": "noul", "instructions": "?", "criteria": ["a"]}}}
UNTRUSTED = [
    pytest.param("POST", "/llm/anthropic/v1/messages", {}, id="inference"),
    pytest.param("POST", "/decide/v1/systemone", _DECISION, id="decide"),
    pytest.param("GET", "/egress/API/x", None, id="egress"),
    pytest.param("GET", "/fountain/api/conversations", None, id="fountain's list"),
    pytest.param("POST", "/api/feedback", {"entries": [1]}, id="feedback"),
]


@pytest.mark.parametrize(("method", "path", "document"), UNTRUSTED)
def test_the_record_says_why_there_is_no_tls_to_the_upstream(
    untrusted: tuple[Proxy, Upstream], method: str, path: str, document: Any
) -> None:
    """Whatever asks the upstream: the cause is a label of the record, and the box is not told it."""
    proxy, upstream = untrusted
    proxy.new_records()
    status, shown = call(proxy, method, path, document)
    assert status == 502
    assert "unknown-ca" not in json.dumps(shown)
    (record,) = proxy.decisions()
    assert (record["verdict"], record["reason"], record["upstream_status"]) == ("deny", "tls", None)
    assert record["labels"][-1] == "upstream-tls:unknown-ca"
    assert not upstream.requests


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.mark.xdist_group("postgres")
def test_two_processes_share_one_database(tmp_path: Path, api: Api, postgres: Postgres) -> None:
    """A report to one process is what the other enforces at its next request."""
    url, database = f"http://127.0.0.1:{api.server.server_port}", postgres.create()
    message = {"model": "m", "max_tokens": 8, "messages": []}
    with (
        start(tmp_path / "1", url, database=database) as first,
        start(tmp_path / "2", url, database=database) as second,
    ):
        for _ in range(5):
            report(first, "agent")
            assert call(second, "POST", "/llm/anthropic/v1/messages", message)[0] == 200
            report(second, "decide")
            assert call(first, "POST", "/llm/anthropic/v1/messages", message)[0] == 403


def test_two_workers_know_of_one_report(tmp_path: Path, api: Api) -> None:
    """A report to one worker is what every other enforces at its next request."""
    url, message = f"http://127.0.0.1:{api.server.server_port}", {"model": "m", "max_tokens": 8, "messages": []}
    with Proxy(tmp_path, {**settings(url), "workers": 2}, {"TOKEN": TOKEN, "HOUSE": HOUSE}) as proxy:
        for _ in range(15):
            for word, status in (("agent", 200), ("decide", 403)):
                report(proxy, word)
                for _ in range(3):
                    found, body = call(proxy, "POST", "/llm/anthropic/v1/messages", message)
                    assert found == status, (body, proxy.records()[-3:])
        assert len({record["chain"] for record in proxy.records()}) == 2


def test_a_thousand_boxes_lose_no_report(tmp_path: Path, api: Api) -> None:
    """1,000 boxes with 100 requests in flight: each finds its own report, and only its own."""
    names = [f"b{number}" for number in range(1000)]
    tokens = {f"T{number}": f"token-of-box-{number:04}-0123456789abcdef" for number in range(1000)}
    document = settings(f"http://127.0.0.1:{api.server.server_port}")
    document["boxes"] = [
        {"name": name, "token": f"env:{variable}"} for name, variable in zip(names, tokens, strict=True)
    ]
    proxy = Proxy(tmp_path, document, {**tokens, "HOUSE": HOUSE})
    with proxy:
        host, port = address(proxy.ready["broker"])

        async def ask(reader: Any, writer: Any, token: str, path: str, body: Any) -> tuple[int, Any]:
            data = json.dumps(body).encode()
            head = f"POST {path} HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer {token}\r\n"
            writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(lines.split(b"content-length: ")[1].split(b"\r\n")[0])
            return int(lines.split(b" ")[1]), json.loads(await reader.readexactly(length))

        async def client(work: list[tuple[str, str]]) -> None:
            reader, writer = await asyncio.open_connection(host, port)
            for name, token in work:
                for scope in ("first", name):
                    entry = {"name": "own", "broker": "lobby", "scope": [scope]}
                    status, kept = await ask(reader, writer, token, "/api/box/declaration", {"capabilities": [entry]})
                    assert (status, kept["capabilities"]) == (200, [entry])
            writer.close()

        async def main() -> None:
            pairs = list(zip(names, tokens.values(), strict=True))
            async with asyncio.TaskGroup() as group:
                for start in range(100):
                    group.create_task(client(pairs[start::100]))

        asyncio.run(main())
    assert _stored(tmp_path) == {name: [name] for name in names}


def _stored(folder: Path) -> dict[str, list[str]]:
    from proxy.settings.broker_model import SqliteDatabase
    from proxy.store import Store

    async def read() -> dict[str, list[str]]:
        store = await Store.open(SqliteDatabase(path=folder / "state" / "broker.db"))
        found = {}
        for number in range(1000):
            kept = await store.report_of(f"b{number}")
            found[f"b{number}"] = [] if kept is None else list(kept.report.declaration.scope("own") or ())
        await store.close()
        return found

    return asyncio.run(read())


def test_a_database_that_cannot_be_used_stops_the_start(tmp_path: Path, api: Api) -> None:
    """The start names it, without its password, and the remedy."""
    proxy = start(tmp_path, "http://127.0.0.1:1", database="postgresql://u:hidden-password@127.0.0.1:1/x")
    with pytest.raises(StartFailed, match="database `postgresql://u:") as failed:
        proxy.start()
    assert "hidden-password" not in str(failed.value)


def test_a_name_that_is_two_boxes_stops_the_start(tmp_path: Path, api: Api) -> None:
    """Whose its report and its grants are would be a guess: each name is told, with both places and what to do."""
    proxy = start(tmp_path, f"http://127.0.0.1:{api.server.server_port}")
    (tmp_path / "state").mkdir(mode=0o700)
    _add(tmp_path, "one", "other")
    with pytest.raises(StartFailed) as failed:
        proxy.start()
    assert (
        f"error: box `one` is in the settings and in database `sqlite:///{tmp_path}/state/broker.db`; "
        "take it out of `boxes`, or run `grantproxy box remove one`\n"
    ) in str(failed.value)
    assert "`other`" not in str(failed.value)
    _ask(tmp_path, lambda store: store.remove_box("one", now=2.0))
    with proxy:
        report(proxy, "agent")


def test_a_reload_that_names_an_added_box_is_refused(tmp_path: Path, api: Api) -> None:
    """What was in force stays, and the operator is told why."""
    with start(tmp_path, f"http://127.0.0.1:{api.server.server_port}") as proxy:
        token = _add(tmp_path, "late")["late"]
        proxy.settings["boxes"].append({"name": "late", "token": "env:LATE"})
        _reload(proxy)
        wanted = f"box `late` is in the settings and in database `sqlite:///{tmp_path}/state/broker.db`; take it out"
        wait_for(lambda: wanted in proxy.output())
        report(proxy, "agent", token=token)
        report(proxy, "agent")


def _reload(proxy: Proxy) -> None:
    (proxy.folder / "grantproxy.yaml").write_text(json.dumps(proxy.settings))
    assert proxy.process is not None
    proxy.process.send_signal(signal.SIGHUP)


def _ask[Result](folder: Path, question: Callable[[Any], Awaitable[Result]]) -> Result:
    from proxy.settings.broker_model import SqliteDatabase
    from proxy.store import Store

    async def work() -> Result:
        store = await Store.open(SqliteDatabase(path=folder / "state" / "broker.db"))
        try:
            return await question(store)
        finally:
            await store.close()

    return asyncio.run(work())


def _add(folder: Path, *names: str) -> dict[str, str]:
    return {name: _ask(folder, lambda store, name=name: store.add_box(name, now=1.0)) for name in names}


def test_a_reload_changes_what_is_served(tmp_path: Path, api: Api) -> None:
    """New settings take over at the next request, on the same address; reports stay."""
    with start(tmp_path, f"http://127.0.0.1:{api.server.server_port}") as proxy:
        report(proxy, "agent")
        assert call(proxy, "GET", "/egress/API/x", {})[0] == 404
        secret = {"name": "API", "host": "http://127.0.0.1:1", "value": "env:HOUSE"}
        proxy.settings["broker"]["secrets"] = [secret]
        _reload(proxy)
        wait_for(lambda: call(proxy, "GET", "/egress/API/x", {})[0] != 404)
        assert call(proxy, "GET", "/egress/API/x", {})[0] == 403
        assert call(proxy, "POST", "/llm/anthropic/v1/messages", {"model": "m"})[0] == 200
