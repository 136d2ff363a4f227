"""What can go wrong with the store. No message holds a token, a grant or a password."""

import os
import sqlite3

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from addons.ports import StateUnavailable


class StoreUnavailable(StateUnavailable):
    """The database did not answer, or refused. Nothing is known about what was asked, so nothing may be allowed."""


class StoreUnsure(StoreUnavailable):
    """A change may have been made all the same: what was lost can be the answer. Every other one that fails was not."""


class BoxExists(Exception):
    """There is a box of that name already."""


class BoxUnknown(Exception):
    """There is no box of that name."""


def cause(error: BaseException) -> str:
    """What is wrong, lower case, one line. Few of a database's own texts are shown: they can hold a value."""
    original = error.orig if isinstance(error, DBAPIError) else error
    driver = original.__cause__ if original is not None else None
    for found in (original, driver):
        if isinstance(found, sqlite3.DatabaseError) and not isinstance(found, sqlite3.IntegrityError):
            return " ".join(str(found).split()).lower()
        state = getattr(found, "sqlstate", None)
        if isinstance(state, str):
            return _STATES.get(state) or _CLASSES.get(state[:2]) or f"it answers with error {state}"
    if isinstance(original, PoolTimeout):
        return "it is too slow for what is asked of it"
    if isinstance(original, TimeoutError):
        return "it does not answer in time"
    if isinstance(original, OSError):
        if original.errno:
            return os.strerror(original.errno).lower()
        return original.strerror or "it cannot be reached as the URL says"
    if isinstance(original, ValueError):
        return "its URL has a part that cannot be used"
    return f"it fails with {type(original).__name__}"


# PostgreSQL's documentation, appendix A, "PostgreSQL Error Codes".
_STATES = {
    "3D000": "it has no database of that name",
    "42501": "the user may not make or change tables there",
    "25006": "it is read-only",
    "53100": "its disk is full",
    "53300": "it has too many connections",
    "57P03": "it is starting up or shutting down",
}
_CLASSES = {
    "28": "it refuses the user or the password",
    "08": "the connection was lost",
    "57": "it was shut down or cancelled the work",
}
