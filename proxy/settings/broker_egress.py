"""`broker.secrets`: what boxes use through `/egress/NAME`, each with the one host that it may be sent to."""

import re
from functools import partial
from pathlib import Path

from grants.model import Grant
from grants.place import Place
from grants.problems import quoted
from proxy.settings.broker_model import EgressSecret
from proxy.settings.broker_parts import References, load_url
from proxy.settings.grantfiles import Grants
from proxy.settings.terms import load_terms
from proxy.settings.upstream import Upstream
from proxy.settings.values import parse_path, read, where

_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
_BOX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_INFERENCE = "ANTHROPIC"


def load_secrets(broker: Place, references: References, grants: Grants) -> tuple[EgressSecret, ...]:
    """The secrets, each name once for each box. Those that have problems are left out."""
    taken: dict[tuple[str, str | None], str] = {}
    secrets = []
    for place in broker.items("secrets"):
        name, box = _name(place.get("name"), inference=broker.has("anthropic")), _box(place.get("box"))
        host, value = _host(place), references.read(place.get("value"))
        terms = load_terms(place, host, references.directory, judged=place.has("grant"))
        path, grant = _grant(place, references.directory, grants)
        if name is None:
            continue
        if (name, box) in taken:
            place.at(("name",)).problem(
                f"is {quoted(name)}, as the secret {taken[name, box]}, for the same boxes; name it differently"
            )
        taken.setdefault((name, box), where(place.at(("name",))))
        if host is not None and value is not None:
            secrets.append(
                EgressSecret(
                    name=name, host=host.origin, value=value, box=box, grant=grant, grant_path=path, terms=terms
                )
            )
    return tuple(secrets)


def _name(place: Place | None, *, inference: bool) -> str | None:
    if place is None:
        return None
    if not _NAME.fullmatch(place.text):
        place.problem(f"is {quoted(place.text)}; write at most 40 of `A` to `Z`, `0` to `9` and `_`, a letter first")
        return None
    if inference and place.text == _INFERENCE:
        # `grantproxy box env` gives the box ANTHROPIC_BASE_URL already.
        place.problem(f"is {quoted(_INFERENCE)}, whose variables are those of `broker.anthropic`; name it differently")
        return None
    return place.text


def _box(place: Place | None) -> str | None:
    """A box's name. It need not be in the settings: boxes are added with `grantproxy box add` too."""
    if place and not _BOX.fullmatch(place.text):
        place.problem(f"is {quoted(place.text)}, which is no box's name; write the name of one, or leave it out")
    return place.text if place else None


def _host(place: Place) -> Upstream | None:
    host = place.get("host")
    upstream = load_url(host, https_only=place.has("grant"))
    if host is None or upstream is None:
        return None
    if upstream.base:
        host.problem("has a path, and a secret is for a whole host; leave the path out")
    return upstream


def _grant(place: Place, directory: Path, grants: Grants) -> tuple[Path | None, Grant | None]:
    found = place.get("grant")
    if found is None:
        return None, None
    path = read(found, partial(parse_path, directory=directory))
    return path, grants.load(path, found) if path else None
