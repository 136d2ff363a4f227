"""The broker's refusals. Their texts are for whoever writes the box: they name what would allow the request."""

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
