"""The demo's calls, in the order in which they are told, and what has to come out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, final


class Front(StrEnum):
    """How a call reaches the proxy."""

    BASE = "base URL"
    PROXY = "HTTPS_PROXY"


_AUTHORIZATION: Final[Mapping[str, str]] = {"Authorization": "Bearer @secret:api"}
_JSON: Final[Mapping[str, str]] = {**_AUTHORIZATION, "Content-Type": "application/json"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call.

    Attributes:
        status: what the client must be answered with.
        rule: the refusal's rule, or None for an allowed call.
        why: one line for the reader.
        reaches: requests that must reach the API (a followed redirect makes two).
        authority: where the forward proxy is asked to connect to, when it is not the API.
    """

    front: Front
    path: str
    status: int
    why: str
    rule: str | None = None
    reaches: int = 0
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=lambda: _AUTHORIZATION)
    body: bytes | None = None
    authority: str | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """Calls that show one thing."""

    title: str
    calls: tuple[Call, ...]


_REQUEST = "semantic-request-deny"

CHAPTERS: Final = (
    Chapter(
        title="Allowed: the agent sends a reference, the API gets the credential",
        calls=(
            Call(
                front=Front.BASE,
                path="/repos/acme/widgets",
                status=200,
                reaches=1,
                why="operation get-repository; the API saw the real token, the agent never did",
            ),
            Call(
                front=Front.PROXY,
                path="/repos/acme/widgets/issues?state=open",
                status=200,
                reaches=1,
                why="operation list-open-issues, through CONNECT and intercepted TLS",
            ),
            Call(
                front=Front.PROXY,
                method="POST",
                path="/repos/acme/widgets/issues",
                headers=_JSON,
                body=b'{"title": "the lid sticks"}',
                status=201,
                reaches=1,
                why="operation create-issue; its body passed the declared schema",
            ),
            Call(
                front=Front.BASE,
                path="/repos/acme/old-widgets",
                status=200,
                reaches=2,
                why="a redirect to a granted route on the same origin was followed",
            ),
        ),
    ),
    Chapter(
        title="Refused before anything is sent",
        calls=(
            Call(
                front=Front.BASE,
                path="/repos/acme/secrets",
                status=403,
                rule=_REQUEST,
                why="another repository than the grant lists",
            ),
            Call(
                front=Front.BASE,
                path="/repos/acme/widgets/../secrets",
                status=403,
                rule=_REQUEST,
                why='".." is refused, never resolved',
            ),
            Call(
                front=Front.PROXY,
                method="DELETE",
                path="/repos/acme/widgets",
                status=403,
                rule=_REQUEST,
                why="no operation has this method",
            ),
            Call(
                front=Front.PROXY,
                path="/repos/acme/widgets/issues?state=all",
                status=403,
                rule=_REQUEST,
                why="a query value outside the declared ones",
            ),
            Call(
                front=Front.BASE,
                path="/repos/acme/widgets",
                headers={**_AUTHORIZATION, "X-Forwarded-User": "root"},
                status=403,
                rule=_REQUEST,
                why="a header that no rule declares",
            ),
            Call(
                front=Front.BASE,
                method="POST",
                path="/repos/acme/widgets/issues",
                headers=_JSON,
                body=b'{"title": "x", "assignee": "root"}',
                status=403,
                rule=_REQUEST,
                why="a body property that the schema does not declare",
            ),
            Call(
                front=Front.BASE,
                path="/repos/acme/widgets",
                headers={"Authorization": "Bearer @secret:admin"},
                status=502,
                rule="unresolved-secret-ref",
                why="a reference that this endpoint does not hold",
            ),
            Call(
                front=Front.PROXY,
                path="/",
                authority="files.example:443",
                status=403,
                rule="denied",
                why="a host that is no endpoint, refused at CONNECT",
            ),
        ),
    ),
    Chapter(
        title="Refused after the API answered: nothing of the answer is shown",
        calls=(
            Call(
                front=Front.BASE,
                path="/faulty/echo",
                status=502,
                rule="semantic-response-credential",
                reaches=1,
                why="the API sent the token back in a header",
            ),
            Call(
                front=Front.PROXY,
                path="/faulty/escaped",
                status=502,
                rule="semantic-response-credential",
                reaches=1,
                why="the API hid the token behind a JSON escape",
            ),
            Call(
                front=Front.BASE,
                path="/faulty/large",
                status=502,
                rule="semantic-response-size",
                reaches=1,
                why="more bytes than the operation allows",
            ),
            Call(
                front=Front.BASE,
                path="/faulty/status",
                status=502,
                rule="semantic-response-status",
                reaches=1,
                why="a status that the operation does not list",
            ),
            Call(
                front=Front.BASE,
                path="/faulty/page",
                status=502,
                rule="semantic-response-schema",
                reaches=1,
                why="a web page where JSON was promised",
            ),
            Call(
                front=Front.BASE,
                path="/repos/acme/widgets/archive",
                status=403,
                rule="semantic-redirect-deny",
                reaches=1,
                why="a redirect to another host was not followed",
            ),
        ),
    ),
)
