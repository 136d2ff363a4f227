"""The broker under test: where it is, what it was given, and everything that it was asked and answered.

A broker is known by its URL and the tokens of two boxes. What it must have been configured with is an `Environment`;
of a broker that runs already, the environment variables below say what differs from the defaults.

    BROKER_URL                     of the broker; without it one is started here
    BROKER_WORD                    the broker word that it answers for (lobby)
    BROKER_TOKEN_A, BROKER_TOKEN_B tokens of the boxes conformance-a, which owns the conversation `conformance`, and -b
    BROKER_CAPABILITIES            those that it serves (inference,egress,feedback,fountain)
    BROKER_STANDINS                ports here that it has as Anthropic API, Fountain and secret's host (9201,9202,9203)
    BROKER_ANTHROPIC_CREDENTIAL, BROKER_FOUNTAIN_CREDENTIAL, BROKER_SECRET_VALUE
                                   what it was given to spend; the secret is `CONFORMANCE` of conformance-a
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import unquote, urlsplit

from .standins import Received, Standins

BOX_A = "conformance-a"
BOX_B = "conformance-b"
SECRET = "CONFORMANCE"
UNHELD = "CONFORMANCE_UNHELD"
UNKNOWN_TOKEN = "gpx_unknown_0123456789abcdef0123456789abcdef"
STANDARD = ("inference", "egress", "feedback", "fountain")
TIMEOUT = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a broker is started with. `upstreams` are the URLs of the stand-ins by name."""

    upstreams: Mapping[str, str]
    word: str = "lobby"
    anthropic: str = "sk-ant-api03-conformance-b7d1f0a2c4e6"
    fountain: str = "fountain-conformance-93af21c07e55"
    secret: str = "secret-conformance-5d0c8e71f2ab"

    @property
    def values(self) -> tuple[str, ...]:
        """What no answer to a box may hold."""
        return (self.anthropic, self.fountain, self.secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer as the box got it; field names are in lower case."""

    status: int
    fields: tuple[tuple[str, str], ...]
    body: bytes

    def field(self, name: str) -> str | None:
        return next((value for key, value in self.fields if key == name), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __str__(self) -> str:
        return f"{self.status}: {self.body[:300].decode(errors='replace')}"


class NotServed(Exception):
    """The broker does not serve the capability that a check is about: the check is skipped."""


@dataclass(slots=True, kw_only=True)
class Broker:
    """The broker under test.

    Attributes:
        tokens: of the boxes, by name.
        served: the specification's capabilities that it serves.
        answers: all so far.
    """

    url: str
    tokens: Mapping[str, str]
    environment: Environment
    standins: Standins
    served: tuple[str, ...] = STANDARD
    answers: list[Answer] = field(default_factory=list)

    def open(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        fields: Mapping[str, str] | None = None,
        box: str | None = BOX_A,
        token: str | None = None,
        key: str = "authorization",
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Send a request; `body` is bytes or a JSON document, `key` the field that shows the token."""
        parts = urlsplit(self.url)
        connection = (HTTPSConnection if parts.scheme == "https" else HTTPConnection)(
            parts.hostname or "", parts.port, timeout=TIMEOUT
        )
        sent = dict(fields or {})
        shown = token if token is not None else self.tokens[box] if box is not None else None
        if shown is not None:
            sent[key] = f"Bearer {shown}" if key == "authorization" else shown
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("content-type", "application/json")
        connection.request(method, parts.path.rstrip("/") + path, body=body, headers=sent)
        return connection, connection.getresponse()

    def call(self, method: str, path: str, **sent: Any) -> Answer:
        """`open`, and the whole answer."""
        connection, response = self.open(method, path, **sent)
        try:
            body = response.read()
        finally:
            connection.close()
        return self.keep(response, body)

    def keep(self, response: HTTPResponse, body: bytes) -> Answer:
        fields = tuple((name.lower(), value) for name, value in response.getheaders())
        answer = Answer(status=response.status, fields=fields, body=body)
        self.answers.append(answer)
        return answer

    def report(self, *entries: tuple[str, list[str]], box: str = BOX_A, **more: Any) -> Answer:
        """Report capabilities of this broker's word, which has to be taken."""
        listed = [{"name": name, "broker": self.environment.word, "scope": scope} for name, scope in entries]
        answer = self.call("POST", "/api/box/declaration", box=box, body={"capabilities": listed, **more})
        assert answer.status == 200, f"a report was not taken: {answer}"
        return answer

    def needs(self, capability: str) -> None:
        if capability not in self.served:
            raise NotServed(f"the broker does not serve {capability}")

    @property
    def received(self) -> list[Received]:
        """What reached the stand-ins so far."""
        return list(self.standins.received)


def spellings(text: str) -> list[str]:
    """A text as it is, percent-decoded, and with each word taken out of base64."""
    found = [text, unquote(text)]
    for word in text.replace(",", " ").split():
        try:
            found.append(b64decode(word, validate=True).decode("latin-1"))
        except ValueError:
            continue
    return found
