"""The broker's refusals. Their texts are for whoever writes the box: they name what would allow the request."""

from grants.broker.fountain import MOST_STEPS, MOST_TEXTS, Kind
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


def countless() -> Deny:
    """The request holds too much for what it names to be told."""
    return bad(
        Reason.BODY_TOO_LARGE,
        f"a request to Fountain holds at most {MOST_TEXTS:,} different texts that could be ids, and {MOST_STEPS:,} "
        "values; send less at once",
        413,
    )


def another_method() -> Deny:
    """A name in the request stands for the method, which would be another than the one that was allowed."""
    return bad(Reason.METHOD, "`_method` and other overrides are not taken here; send the request with its own method")


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
