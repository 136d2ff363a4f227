"""`grantproxy explain`: what a grant decides about one request, offline, and why.

The request is taken as it would be on the wire: nothing of the URL is normalized, and no header is added but the
length of the body. What is printed names headers, parameters and what the grant declares; values of headers are not
repeated.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click

from grants.authorize import Allow
from grants.canonical import parse_authority
from grants.decision import Deny, Reason
from grants.endpoint import Endpoint
from grants.explain import Explanation, Near, explain
from grants.load import load_grant
from grants.message import Authority, Fields, Origin, RequestHead
from grants.model import Grant
from grants.problems import GrantInvalid
from grants.references import referenced
from proxy.cli import examples
from proxy.cli.files import FILE, read

_SCHEME = "https://"
_NO_HOST = Authority(host="upstream.invalid", port=443)
_MAX_BODY = 32 * 1024 * 1024


@click.command("explain", epilog=examples("grantproxy explain examples/pypi.grant.yaml GET /pypi/requests/json"))
@click.argument("grant", type=FILE)
@click.argument("method")
@click.argument("url")
@click.option("-H", "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A request header; repeatable.")
@click.option("-d", "--data", metavar="DATA", help="The request body; @FILE reads it from a file.")
@click.option("--json", "as_json", is_flag=True, help="Print the decision as one JSON object.")
def command(grant: Path, method: str, url: str, headers: tuple[str, ...], data: str | None, as_json: bool) -> None:
    """Say what GRANT decides about a request, and why.

    URL is https://HOST/PATH?QUERY, or only /PATH?QUERY; its host is taken for the endpoint's upstream. Exits 0 when the
    request is allowed, 1 when it is refused, 2 when the question cannot be answered.
    """
    authority = _authority(url)
    fields = tuple(_field(header) for header in headers)
    body = _body(data)
    if body and not any(name.lower() == b"content-length" for name, _ in fields):
        fields += ((b"Content-Length", str(len(body)).encode("ascii")),)
    head = RequestHead(method=os.fsencode(method), target=os.fsencode(url), fields=fields)
    loaded = _load(grant)
    origin = Origin(scheme="https", host=authority.host, port=authority.port)
    endpoint = Endpoint.of(name="explain", upstream=origin, grant=loaded, secrets=frozenset())
    found = explain(endpoint, head, body, authority=authority)
    for line in [json.dumps(_as_json(found))] if as_json else _as_text(found, with_host=url.startswith(_SCHEME)):
        click.echo(line)
    raise SystemExit(0 if isinstance(found.decision, Allow) else 1)


def _authority(url: str) -> Authority:
    if url.startswith("/"):
        return _NO_HOST
    if not url.lower().startswith(_SCHEME):
        raise click.UsageError(
            f"`{url}` is no https URL; write a path, such as `/PATH?QUERY`, or the API's own URL, `https://HOST/PATH`"
        )
    rest = url[len(_SCHEME) :]
    end = min((at for mark in "/?#" if (at := rest.find(mark)) >= 0), default=len(rest))
    authority = parse_authority(os.fsencode(rest[:end]))
    if authority is None:
        raise click.UsageError(f"`{rest[:end]}` is no canonical host; write a name, or an address in its usual form")
    return authority


def _field(header: str) -> tuple[bytes, bytes]:
    name, colon, value = os.fsencode(header).partition(b":")
    if not colon:
        raise click.UsageError("a header has no colon; write `-H 'Name: value'`")
    return name, value.strip(b" \t")


def _body(data: str | None) -> bytes:
    if data is None or not data.startswith("@"):
        return os.fsencode(data or "")
    try:
        with Path(data[1:]).open("rb") as file:
            body = file.read(_MAX_BODY + 1)
    except OSError as error:
        raise click.UsageError(
            f"`{data[1:]}` cannot be read: {(error.strerror or 'no such path').lower()}; name a file after the @"
        ) from None
    if len(body) > _MAX_BODY:
        raise click.UsageError(f"`{data[1:]}` is over 32 MiB, more than any body that is held; name a smaller file")
    return body


def _load(path: Path) -> Grant:
    text = read(path, "write the path of a grant file", code=2)
    try:
        return load_grant(text, file=str(path))
    except GrantInvalid as invalid:
        from proxy.cli.check import is_settings  # here: a good grant need not wait for what reads settings

        if is_settings(text):
            click.echo(f"error: `{path}` is a settings file; name a grant file, such as one that it names", err=True)
        else:
            for problem in invalid.problems:
                click.echo(str(problem), err=True)
    raise SystemExit(2)


def _as_text(found: Explanation, *, with_host: bool) -> Iterator[str]:
    decision = found.decision
    if isinstance(decision, Allow):
        operation, request = decision.granted.operation, decision.request
        yield f"allow: operation {operation.name} ({operation.effect})"
        yield f"  route:      {operation.method} {operation.route.template}"
        yield f"  sent:       {operation.method} {request.origin if with_host else ''}{request.target.decode('ascii')}"
        yield f"  headers:    {', '.join(_names(request.fields)) or 'none'}"
        yield f"  references: {', '.join(referenced(request.fields)) or 'none'}"
        return
    yield f"deny: {decision.reason} ({decision.rule}, {decision.status})"
    yield f"  {decision.detail}"
    if decision.reason is Reason.HEADER_UNDECLARED:
        yield "  a grant that declares them takes them; `undeclaredHeaders: strip` at its top leaves such headers out"
    for near in found.near:
        if near.denial.detail == decision.detail or _of_another_method(near, found):
            continue
        yield f"near: operation {near.operation.name}, {near.operation.method} {near.operation.route.template}"
        yield f"  {near.denial.reason}: {near.denial.detail}"


def _of_another_method(near: Near, found: Explanation) -> bool:
    """Whether it is near only by its path, and the refusal is about an operation that has the method too."""
    decision = found.decision
    return (
        near.denial.reason is Reason.METHOD
        and isinstance(decision, Deny)
        and decision.reason is not Reason.METHOD
        and decision.operation is not None
    )


def _as_json(found: Explanation) -> dict[str, object]:
    decision = found.decision
    if isinstance(decision, Allow):
        operation, request = decision.granted.operation, decision.request
        return {
            "verdict": "allow",
            "operation": operation.name,
            "effect": operation.effect.value,
            "route": operation.route.template,
            "method": operation.method,
            "target": request.target.decode("ascii"),
            "headers": _names(request.fields),
            "references": list(referenced(request.fields)),
        }
    return {"verdict": "deny", **_refusal(decision), "near": [_near(near) for near in found.near]}


def _refusal(denial: Deny) -> dict[str, object]:
    return {
        "rule": denial.rule.value,
        "reason": denial.reason.value,
        "status": denial.status,
        "detail": denial.detail,
        "operation": denial.operation,
    }


def _near(near: Near) -> dict[str, object]:
    operation = near.operation
    return {
        "operation": operation.name,
        "method": operation.method,
        "route": operation.route.template,
        "reason": near.denial.reason.value,
        "detail": near.denial.detail,
    }


def _names(fields: Fields) -> list[str]:
    return [name.decode("ascii") for name, _ in fields]
