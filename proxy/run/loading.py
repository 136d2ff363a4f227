"""Variables by which the loader, Python or OpenSSL take code into our own process, or whom TLS trusts.

Each is read as its reader does it, with every entry that could be one. A relative entry, and an empty one where that
means the current directory, come through the working directory, so they are refused whatever they lead to: the next
start may be in a directory below.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from proxy.run.refused import IsolationRefused
from proxy.run.ways import leads_into

LOADING: Final = (
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "LOCPATH"),
    *("PYTHONHOME", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE"),
    *("OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""The variables."""
_PLACES: Final = "PYTHONPATH"
"""Where that leads is seen with the places of modules; it may be an installation in the working directory."""
SKIP_EMPTY: Final = frozenset({"LD_PRELOAD", "LD_AUDIT", "SSL_CERT_DIR"})
"""Of which an empty entry is nothing to its reader."""
_LIST: Final = re.compile(":")
_LISTS: Final = {"LD_LIBRARY_PATH": re.compile(r"[:;\n]"), "LD_PRELOAD": re.compile(r"[:\s]")}
"""What stands between entries, where it is not a colon alone (ld.so(8); musl has white space too)."""


def hold_variables(work: Path, environment: Mapping[str, str]) -> None:
    """Refuse what leads into the working directory.

    Raises:
        IsolationRefused: with the variable, and what to do.
    """
    for name in (*LOADING, _PLACES):
        alone = f"set it for the program alone (`-- env {name}=… COMMAND`)"
        for text in _entries(name, environment.get(name, "")):
            if not text.startswith("/"):
                raise IsolationRefused(
                    f"`{name}` leads into the working directory by an entry that is {'relative' if text else 'empty'}, "
                    f"so that the program could put code into grantproxy; write absolute paths, or {alone}"
                )
            if name.startswith("LD_") and "$" in text:  # `$ORIGIN`, `$LIB`, `$PLATFORM`
                raise IsolationRefused(
                    f"`{name}` holds a `$`, for which the loader puts in something else, so that it may lead into the "
                    f"working directory; write the path out, or {alone}"
                )
            if name != _PLACES and leads_into(Path(text), work):
                raise IsolationRefused(
                    f"`{name}` leads into the working directory, so that the program could put code into grantproxy; "
                    f"{alone}"
                )


def _entries(name: str, value: str) -> Iterator[str]:
    """Each entry; the whole too, as some are one path. An empty variable is none to any reader."""
    if value.startswith("/"):
        yield value
    if value:
        yield from (text for text in _LISTS.get(name, _LIST).split(value) if text or name not in SKIP_EMPTY)
