"""Whose token a request shows, and that no token of any box goes on from there.

A box's own is read from `Authorization` or `x-api-key`, and on egress from wherever an API has its key; the box is
found by the digest of a word, so that how long that takes tells nothing. Once the box is known, the whole request is
searched for all tokens that live: those of the settings are known in clear, and what has the form of an issued one is
cut out of the text and asked for by its digest. Both in every spelling that `grants.broker.search` knows.
Source: "Tokens" in the specification, and "What never goes where" in docs/reference/broker.md.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

from addons.boxes import Box, Boxes
from grants.basic import decode_basic, is_basic
from grants.broker.capabilities import Needs, Route
from grants.broker.issued import MOST, MOST_LOOKS, Bound, Issued, is_issued, may_name
from grants.broker.needles import Either, Pattern, needles
from grants.broker.search import found
from grants.decision import Deny, Reason
from grants.message import RequestHead
from grants.secret import MIN_SECRET_BYTES

from .call import Call
from .denials import bad, denied, leak
from .turns import found_in_turns

_CHALLENGED: Final = frozenset({Route.DECLARATION, Route.DECIDE})
_BEARER: Final = b"bearer"
_WORD: Final = re.compile(rb"[^\s,;=\"']{%d,}" % MIN_SECRET_BYTES)


async def holder(boxes: Boxes, needs: Needs, head: RequestHead, query: bytes | None) -> tuple[bytes, Box] | Deny:
    """The box that asks, with its token as the head shows it.

    A head that shows none, or beside it any other token of any box, is refused, and so is one in which there are more
    texts that have the form of a token than are asked about.

    Raises:
        StateUnavailable: the boxes that were added cannot be asked for.
    """
    read = candidates(head, query, anywhere=needs.route is Route.EGRESS)
    if sum(map(is_issued, read)) > MOST:
        return _crowded("head", Bound.TEXTS)
    shown = await boxes.find_all(read)
    if not shown:
        return unknown(needs)
    if len(shown) > 1:
        return _several()
    own, box = next(iter(shown.items()))
    text = b"\n".join([head.target, *[part for pair in head.fields for part in pair]])
    known, issued = await boxes.known(), Issued(besides=own)
    held = found(text, Either(known.needles.besides(own), issued))
    if issued.over is not None:
        return _crowded("head", issued.over)
    # readers fold names (RFC 9110, 5.1), and few are as long as a token
    names = [name.lower() for name, _ in head.fields if len(name) >= MIN_SECRET_BYTES]
    held = held or known.folded.besides(own.lower()).found(b"\n".join(names))
    held = held or any(may_name(name) and own.lower() not in name for name in names)
    return _several() if held or await boxes.any_added(issued.texts) else (own, box)


async def in_body(call: Call, body: bytes) -> Deny | None:
    """The refusal of a whole body in which a token stands, of whatever box.

    Raises:
        StateUnavailable: the boxes that were added cannot be asked for.
    """
    issued = Issued()
    held = await found_in_turns(body, Either(await streamed(call), issued))
    if issued.over is not None:
        return _crowded("body", issued.over)
    return leak("body") if held or await call.broker.boxes.any_added(issued.texts) else None


async def streamed(call: Call) -> Pattern:
    """What a body may not hold that goes on as it comes: the box's own token, and those that are known in clear."""
    return Either(needles((call.token,)), (await call.broker.boxes.known()).needles)


async def holds_token(boxes: Boxes, text: bytes) -> bool:
    """Whether a token of a box stands in a short text, such as a credential. Or too much that may be one.

    Raises:
        StateUnavailable: the boxes that were added cannot be asked for.
    """
    issued = Issued()
    return found(text, Either((await boxes.known()).needles, issued)) or await boxes.any_added(issued.texts)


def candidates(head: RequestHead, query: bytes | None, *, anywhere: bool) -> tuple[bytes, ...]:
    """What may be the box's own token, each once; `anywhere`: it is read from every field and from the query."""
    read = dict.fromkeys(_named(head))
    if anywhere:
        read.update(dict.fromkeys([*_in_fields(head), *_in_query(query or b"")]))
    return tuple([text for text in read if len(text) >= MIN_SECRET_BYTES])


def _named(head: RequestHead) -> Iterator[bytes]:
    for name, value in head.fields:
        lower = name.lower()
        if lower == b"x-api-key":
            yield value
        elif lower == b"authorization":
            scheme, _, rest = value.partition(b" ")
            if scheme.lower() == _BEARER:
                yield rest.strip()


def _in_fields(head: RequestHead) -> Iterator[bytes]:
    for _, value in head.fields:
        yield from (value, value.partition(b" ")[2], *_WORD.findall(value))
        plain = decode_basic(value) if is_basic(value) else None
        if plain is not None:
            user, _, password = plain[6:].partition(b":")
            yield from (plain[6:], user, password)


def _in_query(query: bytes) -> Iterator[bytes]:
    for pair in re.split(rb"[&;]", query):
        value = pair.partition(b"=")[2]
        yield from (value, unquote_to_bytes(value), unquote_to_bytes(value.replace(b"+", b" ")))


def unknown(needs: Needs) -> Deny:
    """The refusal of a request without a box."""
    where = (
        "where the API expects its key"
        if needs.route is Route.EGRESS
        else "as `Authorization: Bearer TOKEN` or `x-api-key: TOKEN`"
    )
    status = 401 if needs.route in _CHALLENGED else 403
    return denied(Reason.BOX_UNKNOWN, f"the request shows no token of a box; send the box's own {where}", status)


def _several() -> Deny:
    return denied(Reason.BOX_UNKNOWN, "the request shows more than one box's token; send exactly one")


_BOUNDS: Final = {
    Bound.TEXTS: f"{MOST:,} different texts that have the form of a box's token",
    Bound.LOOKS: f"{MOST_LOOKS:,} places where a box's token may begin, with `gpx_` or the base64 of that",
}


def _crowded(where: str, bound: Bound) -> Deny:
    return bad(Reason.BOX_UNKNOWN, f"the {where} holds more than {_BOUNDS[bound]}; send fewer")
