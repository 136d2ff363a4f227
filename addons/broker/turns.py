"""A search of a large body that lets others have their turns: one full of escapes takes a second or more."""

import asyncio
from typing import Final

from grants.broker.needles import Pattern
from grants.broker.scan import Disclosed
from grants.broker.search import Search

_PIECE: Final = 256 * 1024


async def found_in_turns(body: bytes, pattern: Pattern) -> bool:
    """Whether what is looked for stands in `body`, in a spelling that `grants.broker.search` knows."""
    search = Search(pattern)
    for start in range(0, len(body), _PIECE):
        if isinstance(search.feed(body[start : start + _PIECE]), Disclosed):
            return True
        await asyncio.sleep(0)
    return isinstance(search.finish(), Disclosed)
