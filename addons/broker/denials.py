"""The broker's refusals. Their texts are for whoever writes the box: they name what would allow the request."""

from grants.broker.bounded import MOST_VALUES
from grants.broker.fountain import MAX_NAME, MOST_STEPS, MOST_TEXTS, Fault, Kind
from grants.decision import Deny, Reason, Rule


def denied(reason: Reason, detail: str, status: int = 403) -> Deny:
    """The rule, or the broker's own, does not allow it."""
    return Deny(rule=Rule.DENIED, reason=reason, detail=detail, status=status)


def bad(reason: Reason, detail: str, status: int = 400) -> Deny:
    """The request is not in its format."""
    return Deny(rule=Rule.BAD_REQUEST, reason=reason, detail=detail, status=status)


def leak(where: str) -> Deny:
    """The token stands where it would go upstream."""
    return denied(
        Reason.BOX_TOKEN_LEAK,
        f"the box's token stands in the {where} of the request, from which it would go upstream; take it out",
    )


def not_own(kind: Kind | None) -> Deny:
    """The request names, or holds, what is not the box's own. Nothing tells whether there is such a thing."""
    what = "thing at Fountain" if kind is None else kind.value
    detail = f"this box has no such {what}; it can name what it created, or what its settings list"
    return denied(Reason.NOT_OWN, detail, 404)


def untold(fault: Fault) -> Deny:
    """What a request to Fountain names cannot be told."""
    match fault:
        case Fault.MANY_TEXTS:
            return _full(f"{MOST_TEXTS:,} different texts that could be ids")
        case Fault.MANY_STEPS:
            return _full(f"{MOST_STEPS:,} values, parts of texts and characters of names, all counted together")
        case Fault.OVERRIDE:
            detail = "`_method` and other overrides are not taken here; send the request with its own method"
            return bad(Reason.METHOD, detail)
        case Fault.UNREAD:
            detail = (
                "a parameter or header field that begins with `{` or `[` is read as JSON, and one here is not strict "
                "JSON; send it as that, with `&` and `;` percent-encoded, or begin it otherwise"
            )
            return bad(Reason.QUERY_MALFORMED, detail)
        case _:
            inside = fault is Fault.LONG_MEMBER
            what, reason = ("member", Reason.BODY_SCHEMA) if inside else ("parameter", Reason.QUERY_TOO_LONG)
            return bad(reason, f"the name of a {what} has at most {MAX_NAME:,} characters here; send a shorter one")


def _full(held: str) -> Deny:
    return bad(Reason.BODY_TOO_LARGE, f"a request to Fountain holds at most {held}; send less at once", 413)


def countless_values() -> Deny:
    """The body has too many values to be read without holding up others."""
    detail = (
        f"a JSON body holds at most {MOST_VALUES:,} values (commas, `[` and `{{` outside of texts); send it in parts"
    )
    return bad(Reason.BODY_TOO_LARGE, detail, 413)


def multiplied(most: int) -> Deny:
    """The questions repeat the body too often."""
    detail = (
        f"each question is asked with the whole state: the body's size times its questions is at most {most:,} bytes; "
        "ask fewer at once"
    )
    return bad(Reason.BODY_TOO_LARGE, detail, 413)


def unlearned(kind: Kind) -> Deny:
    """Something was created, and is not known to be the box's. No invitation to try again: it would be made twice."""
    detail = (
        f"Fountain made the {kind.value}, but that it is this box's could not be stored, so the box cannot name it; do "
        "not send this again, tell the operator, who can remove it there or list it as the box's own"
    )
    return denied(Reason.STATE, detail, 502)


def unreadable(name: str) -> Deny:
    """The credential cannot be read now."""
    return Deny(
        rule=Rule.UNRESOLVED_SECRET,
        reason=Reason.REFERENCE_EMPTY,
        status=502,
        detail=f"the credential `{name}` has no usable value now; tell the operator",
    )


def disclosed() -> Deny:
    """An answer holds a credential."""
    return Deny(
        rule=Rule.RESPONSE_CREDENTIAL,
        reason=Reason.CREDENTIAL,
        status=502,
        detail="the answer holds the credential, so it is not shown",
    )


def unusable(detail: str, status: int = 502) -> Deny:
    """An answer cannot be used."""
    return Deny(rule=Rule.UPSTREAM_ERROR, reason=Reason.ANSWER_UNUSABLE, status=status, detail=detail)


def uncoded() -> Deny:
    """A content coding that cannot be taken off, so that nothing can be searched."""
    return Deny(
        rule=Rule.UPSTREAM_ERROR,
        reason=Reason.RESPONSE_CODING,
        status=502,
        detail="the answer has a content coding that cannot be taken off",
    )
