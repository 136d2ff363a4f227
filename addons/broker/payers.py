"""Whose credential pays for a model call: a visitor's by a grant, else the box owner's, else the house's.

Source: "Who pays" and "Whose turn" in the specification.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from grants.broker.payer import GRANT_HEADER, PAYER_HEADER, Payer, PayerKind, is_grant, is_principal
from grants.decision import Deny
from grants.message import Fields

from .call import Call
from .denials import unreadable
from .parts import Credential, Opened
from .token import holds_token

BETA: Final = b"anthropic-beta"
_OAUTH: Final = b"oauth-2025-04-20"
_SETUP_TOKEN: Final = b"sk-ant-oat"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """Who pays, and with what."""

    payer: Payer
    name: str
    opened: Opened = field(repr=False)

    @property
    def header(self) -> Fields:
        """What the answer says of it."""
        return ((PAYER_HEADER, self.payer.header()),)

    def fields(self, sent: Fields) -> Fields:
        """The credential as the Anthropic API takes it, and `anthropic-beta` with what the client sent there."""
        value = self.opened.value
        betas = [value for name, value in sent if name.lower() == BETA]
        if value.startswith(_SETUP_TOKEN):
            if not any(_OAUTH in beta for beta in betas):
                betas.append(_OAUTH)
            credential = (b"Authorization", b"Bearer " + value)
        else:
            credential = (b"x-api-key", value)
        return (credential, (BETA, b",".join(betas))) if betas else (credential,)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Payers:
    """The credentials of model calls. `owners` by the box's name."""

    house: tuple[Credential, Payer]
    owners: Mapping[str, tuple[Credential, Payer]] = field(default_factory=dict)

    def usual(self, box: str) -> Payer:
        """Who pays on no visitor's turn."""
        return self.owners.get(box, self.house)[1]

    async def choose(self, call: Call) -> Paid | Deny:
        """Who pays for this request. A grant that fails its check is ignored."""
        if (visiting := await _visitor(call)) is not None:
            return visiting
        credential, payer = self.owners.get(call.box.name, self.house)
        opened = await credential.open()
        if opened is None:
            return unreadable(credential.name)
        return Paid(payer=payer, name=credential.name, opened=opened)


async def _visitor(call: Call) -> Paid | None:
    grants = [value for name, value in call.head.fields if name.lower() == GRANT_HEADER]
    if len(grants) != 1 or not is_grant(grants[0]):
        return None
    visitor = await call.broker.state.visitor(grants[0], call.box.key)
    if visitor is None or not is_principal(visitor.principal):
        return None
    opened = await visitor.credential.open()
    if opened is None or await holds_token(call.broker.boxes, opened.value):
        return None
    payer = Payer(kind=PayerKind.VISITOR, principal=visitor.principal)
    return Paid(payer=payer, name=visitor.credential.name, opened=opened)
