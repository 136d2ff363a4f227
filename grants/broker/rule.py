"""The rule of the broker: a request that needs a word of a capability is refused unless the last report lists it.

Default deny: no report, another broker's word, a missing entry and a missing word all refuse. The text says which
entry would allow the request, so that whoever reads it can add it to the box block.
Source: "The rule" and "Refusals" in the specification.
"""

import json
from collections.abc import Iterable

from grants.text import listed

from .declaration import Declaration

_BLOCK = "the box block of its chant.workspace.json"


def refusal(declaration: Declaration | None, word: str, capability: str, scope_word: str) -> str | None:
    """Why the declaration does not allow `scope_word` of `capability`, or None when it does.

    Args:
        declaration: what was kept of the box's last report; None when it never reported.
        word: the broker word that this broker answers for now.
        capability: what the request needs.
        scope_word: the word of it that the request needs.
    """
    entry = json.dumps({"name": capability, "broker": word, "scope": [scope_word]}, ensure_ascii=False)
    if declaration is None:
        return (
            f"this box has not reported its capabilities yet, and `{capability}` needs `{scope_word}`; "
            f"have its steward report {entry} from {_BLOCK} to /api/box/declaration"
        )
    scope = declaration.scope(capability) if declaration.broker == word else None
    if scope is None:
        return (
            f"this box declares no `{capability}` at broker `{word}`, and this request needs its `{scope_word}`; "
            f"add {entry} to {_BLOCK}"
        )
    if scope_word not in scope:
        return (
            f"this box's `{capability}` does not list `{scope_word}` in its scope, which lists: {listed(scope)}; "
            f'add "{scope_word}" to the scope of that entry in {_BLOCK}'
        )
    return None


def refused(
    declaration: Declaration | None, word: str, capability: str, words: Iterable[str]
) -> tuple[str, str] | None:
    """The first of `words` that is not allowed, with its refusal; None when all are. No words, no refusal."""
    for scope_word in words:
        if (text := refusal(declaration, word, capability, scope_word)) is not None:
            return scope_word, text
    return None
