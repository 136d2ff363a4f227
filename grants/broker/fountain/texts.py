"""The texts of a request that could be an id: each whole, and what stands between the marks that join ids to others.

What another box owns is found by them under whatever name and in whatever place it stands. A text without white space
is also taken apart at quotes and brackets, and from each mark to its end, since an id may hold marks itself. In one
with white space (a message, a title) no word alone is taken for an id.
"""

from itertools import accumulate
from typing import Final, final
from urllib.parse import unquote

from .kinds import MAX_ID

MOST_TEXTS: Final = 10_000
"""The most different texts that are looked for."""

MOST_STEPS: Final = 200_000
"""The most values, pieces of texts and characters of names that are looked at, so that no request holds up others."""

_SPLIT_CHARACTERS: Final = 1024
_MARK: Final = "/"
_MARKS: Final = str.maketrans(dict.fromkeys("/:,;#?&=|", _MARK))
_ALL_MARKS: Final = _MARKS | str.maketrans(dict.fromkeys("\"'`<>()[]{}", _MARK))


@final
class Texts:
    """Collects them. `found` is whole while `full` is false."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._seen: set[str] = set()
        self._steps = 0

    @property
    def many(self) -> bool:
        """There were more than are looked for."""
        return len(self.found) > MOST_TEXTS

    @property
    def full(self) -> bool:
        """There were more than are looked for, or too much was looked at for them."""
        return self.many or self._steps > MOST_STEPS

    def step(self, count: int = 1) -> None:
        """So much was looked at."""
        self._steps += count

    def add(self, text: str) -> None:
        """Take a text apart. Total: never raises."""
        if len(text) > _SPLIT_CHARACTERS or text in self._seen or self.full:
            return
        self._seen.add(text)
        for each in {text, unquote(text)} if "%" in text else (text,):
            self._split(each)

    def _split(self, text: str) -> None:
        whole = text.strip()
        spaced = not _is_word(whole)
        parts = whole.translate(_MARKS if spaced else _ALL_MARKS).split(_MARK)
        self.step(len(parts))
        pieces = [text, whole, *[part.strip() for part in parts if _is_word(part)]]
        if not spaced:
            ends = accumulate(len(part) + 1 for part in parts[:-1])
            pieces += [whole[end:] for end in ends]
        self.found.update([piece for piece in pieces if 0 < len(piece) <= MAX_ID])


def scalar_text(value: bool | float | str | None) -> str:
    """A scalar as the text that an id would be; empty where it can be none."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _is_word(text: str) -> bool:
    """Whether there is no white space in it, but at its ends."""
    return len(text.split(None, 1)) == 1
