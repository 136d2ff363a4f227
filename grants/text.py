"""How a refusal's text shows names and lists: in quotes, printable, bounded."""

from collections.abc import Iterable

_MAX_NAME = 64
_MAX_LISTED = 5
_MAX_VALUE = 128


def quoted(name: str) -> str:
    """`name` in double quotes, with everything but visible ASCII and spaces escaped, cut after 64 characters."""
    cut = name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "..."
    return '"' + _plain(cut).replace('"', '\\"') + '"'


def listed(values: Iterable[str]) -> str:
    """The first five of `values`, and how many more there are; `none` for none."""
    every = list(values)
    if not every:
        return "none"
    shown = [_plain(value if len(value) <= _MAX_VALUE else value[:_MAX_VALUE] + "...") for value in every[:_MAX_LISTED]]
    more = f" and {len(every) - _MAX_LISTED} more" if len(every) > _MAX_LISTED else ""
    return ", ".join(shown) + more


def _plain(text: str) -> str:
    return text if text.isascii() and text.isprintable() else text.encode("unicode_escape").decode("ascii")
