"""A box's declaration: what its last report asked of this broker, and nothing that it asked of another.

A report is read once, strictly, into the entries that name this broker's word; whatever else it holds is dropped.
What is kept is what the rule enforces, what is stored and what the box is answered. Entries of one name are merged,
repeated words dropped, both in the order in which they came.
Source: "Reporting the declaration" in the specification.
"""

import json
import re
from dataclasses import dataclass
from typing import Final, final

from grants.jsontext import JsonInvalid, JsonValue, parse_json
from grants.text import quoted

from .facts import JsonObject, Malformed, has_control, read_listing, read_spend
from .payer import Payer

MAX_REPORT_BYTES: Final = 32 * 1024
"""Bytes of a report's body. The caller answers 413 above, before `read_report`."""

MAX_CAPABILITIES: Final = 20
MAX_WORDS: Final = 50
"""Scope words of one entry, counted before repeats are dropped."""
MAX_WORD: Final = 64
"""Characters of one scope word."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One capability as the broker keeps it.

    Attributes:
        name: of the capability.
        scope: its words, each once.
    """

    name: str
    scope: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The entries of a box's last report that name this broker.

    Attributes:
        broker: the word that the entries name.
        capabilities: each name once.
    """

    broker: str
    capabilities: tuple[Kept, ...] = ()

    def scope(self, capability: str) -> tuple[str, ...] | None:
        """The words that `capability` lists, or None when the box does not declare it here."""
        return next((kept.scope for kept in self.capabilities if kept.name == capability), None)

    def to_json(self) -> str:
        """One text for one declaration, in ASCII, to be stored; `from_json` reads it."""
        document = {"broker": self.broker, "capabilities": [[kept.name, *kept.scope] for kept in self.capabilities]}
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Declaration":
        """The declaration that `to_json` wrote.

        Raises:
            ValueError: the text is not one. Then nothing is allowed by it.
        """
        document = json.loads(text)
        try:
            broker, rows = document["broker"], document["capabilities"]
            entries = tuple(Kept(name=name, scope=tuple(words)) for name, *words in rows)
            words = [broker, *(word for kept in entries for word in (kept.name, *kept.scope))]
            sound = all(isinstance(word, str) for word in words)
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise ValueError("a stored declaration is not in its format")
        return cls(broker=broker, capabilities=entries)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report that was read.

    Attributes:
        declaration: what is kept of its capabilities.
        listing: as `read_listing` gives it; None when the report has none.
        spend: as `read_spend` gives it; None when the report has none.
    """

    declaration: Declaration
    listing: JsonObject | None = None
    spend: JsonObject | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInvalid:
    """The body is not a report: a 400. `detail` is for the box, and shows nothing longer than a name."""

    detail: str


def is_capability_name(text: str) -> bool:
    """Whether `text` is `[a-z][a-z0-9-]{0,62}`."""
    return _NAME.fullmatch(text) is not None


def read_report(body: bytes, *, word: str) -> Report | ReportInvalid:
    """Read the body of `POST /api/box/declaration`. Total: never raises.

    Args:
        body: as it came, at most `MAX_REPORT_BYTES`.
        word: the broker word that this broker answers for; entries with another or none are passed over.
    """
    try:
        value = parse_json(body)
    except JsonInvalid as invalid:
        return ReportInvalid(detail=f"the body is not strict JSON: {invalid}")
    try:
        return _report(value, word)
    except Malformed as malformed:
        return ReportInvalid(detail=str(malformed))


def kept_answer(
    declaration: Declaration,
    at: str,
    listing: JsonObject | None = None,
    spend: JsonObject | None = None,
    payer: Payer | None = None,
) -> JsonObject:
    """What a report is answered with: `declarationKept` of the specification.

    Args:
        at: when the report was stored, in ISO 8601.
        listing: what the broker keeps of the report; left out when None, and so are `spend` and `payer`.
    """
    answer: JsonObject = {
        "capabilities": [
            {"name": kept.name, "broker": declaration.broker, "scope": list(kept.scope)}
            for kept in declaration.capabilities
        ],
        "at": at,
    }
    if payer is not None:
        answer["payer"] = payer.document()
    if listing is not None:
        answer["listing"] = listing
    if spend is not None:
        answer["spend"] = spend
    return answer


def _report(value: JsonValue, word: str) -> Report:
    entries = value.get("capabilities") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(entries, list):
        raise Malformed('the body is not a report; send {"capabilities": [{"name", "broker", "scope"}]}')
    if len(entries) > MAX_CAPABILITIES:
        raise Malformed(f"a report has at most {MAX_CAPABILITIES} capabilities")
    kept: dict[str, dict[str, None]] = {}
    for index, entry in enumerate(entries):
        name, words = _entry(entry, index, word)
        if words is not None:
            kept.setdefault(name, {}).update(dict.fromkeys(words))
    listing, spend = value.get("listing"), value.get("spend")
    return Report(
        declaration=Declaration(
            broker=word, capabilities=tuple(Kept(name=name, scope=tuple(words)) for name, words in kept.items())
        ),
        listing=None if listing is None else read_listing(listing),
        spend=None if spend is None else read_spend(spend),
    )


def _entry(entry: JsonValue, index: int, word: str) -> tuple[str, list[str] | None]:
    """The name of an entry and its words; None for the words of an entry that is not this broker's."""
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(name, str) or not is_capability_name(name):
        shown = f"{quoted(name)} is" if isinstance(name, str) else "it has"
        shown += " not a capability name" if isinstance(name, str) else " no name"
        raise Malformed(f"`capabilities[{index}]`: {shown}; a name is a to z, then a to z, 0 to 9 or -")
    if entry.get("broker") != word:
        return name, None
    scope = entry.get("scope")
    scope = [] if scope is None else scope
    if not isinstance(scope, list) or len(scope) > MAX_WORDS:
        raise Malformed(f"`capabilities[{index}].scope` is an array of at most {MAX_WORDS} words")
    words = [item for item in scope if isinstance(item, str) and 1 <= len(item) <= MAX_WORD and not has_control(item)]
    if len(words) != len(scope):
        raise Malformed(f"a word of `capabilities[{index}].scope` is 1 to {MAX_WORD} characters, none of them control")
    return name, words
