"""What several parts of the broker's settings have: references that no box may have, upstreams, payers, ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from grants.broker.payer import Payer, PayerKind, is_principal
from grants.document import Scalar
from grants.place import Place
from grants.problems import quoted
from proxy.settings.broker_model import Service
from proxy.settings.reference import parse_reference
from proxy.settings.terms import load_terms
from proxy.settings.upstream import Upstream, parse_upstream
from proxy.settings.values import read

MAX_ID = 512


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Reads references. `tokens`: those of the boxes, with the box's name: none may be sent to an upstream."""

    directory: Path
    tokens: Mapping[str, str]

    def read(self, place: Place | None) -> str | None:
        """The reference at `place`; None when there is none, or it has problems."""
        reference = read(place, partial(parse_reference, directory=self.directory))
        if place and reference is not None and reference in self.tokens:
            box = quoted(self.tokens[reference])
            place.problem(f"is the token of box {box} too, which no upstream may receive; name another secret")
        return reference


def load_url(place: Place | None, *, https_only: bool = False) -> Upstream | None:
    """An upstream; http only where the operator writes it so."""
    return read(place, partial(parse_upstream, https_only=https_only))


def load_service(place: Place, references: References) -> Service | None:
    """`url`, `credential` and how it is called."""
    upstream, credential = load_url(place.get("url")), references.read(place.get("credential"))
    terms = load_terms(place, upstream, references.directory)
    if upstream is None or credential is None:
        return None
    return Service(origin=upstream.origin, base=upstream.base, credential=credential, terms=terms)


def load_payer(place: Place, usual: PayerKind) -> Payer:
    """`payer`: its kind, and whom it names. What it says of a visitor, only a visitor's grant can say."""
    payer = place.get("payer")
    if payer is None:
        return Payer(kind=usual)
    kind, principal = payer.get("kind"), payer.get("principal")
    name = principal.text if principal else None
    if principal and isinstance(principal.node, Scalar) and principal.node.plain and name in ("null", "~"):
        name = None
    if principal and name is not None and not (is_principal(name) and name.isascii()):
        principal.problem("is not 1 to 200 visible ASCII characters; write such as `github:login`, or `null`")
        name = None
    return Payer(kind=PayerKind(kind.text) if kind else usual, principal=name)


def load_id(place: Place | None) -> str | None:
    """The id of something at Fountain."""
    if place is None:
        return None
    text = place.text
    if not (0 < len(text) <= MAX_ID and text.isprintable()):
        place.problem(f"is {quoted(text)}; write the id as Fountain shows it")
        return None
    return text
