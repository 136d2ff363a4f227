"""What the proxy's process tells the one that started it: where it listens, and at the end what it decided.

One JSON line each, over a pipe that nobody else has. No credential is in them, but the token
of a box that the program is.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from proxy.client_env.addresses import Addresses
from proxy.client_env.trust import TrustFiles
from proxy.run.served import Hidden


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The proxy serves.

    Attributes:
        addresses: the URLs for the program; a box's token stands in them where there is one.
        forwards: of an isolated program, the port of its loopback and the socket behind it.
        hidden: what the program may not see.
        trust: the files by which it trusts the CA.
        state: the state directory. log: the decision log.
    """

    addresses: Addresses
    forwards: tuple[tuple[int, Path], ...]
    hidden: Hidden
    trust: TrustFiles
    state: Path
    log: Path

    def line(self) -> bytes:
        """The message."""
        document = {
            "proxy_url": self.addresses.proxy_url,
            "base_urls": dict(self.addresses.base_urls),
            "git_urls": dict(self.addresses.git_urls),
            "forwards": [[port, str(path)] for port, path in self.forwards],
            "variables": sorted(self.hidden.variables),
            "files": [str(path) for path in self.hidden.files],
            "rules": [str(path) for path in self.hidden.rules],
            "trust": {name: str(getattr(self.trust, name)) for name in TrustFiles.__dataclass_fields__},
            "state": str(self.state),
            "log": str(self.log),
        }
        return json.dumps(document).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> "Ready":
        """The message in a line that `line` made."""
        found = json.loads(line)
        trust: dict[str, Any] = {
            name: text if name == "pkcs12_password" else Path(text) for name, text in found["trust"].items()
        }
        return cls(
            addresses=Addresses(proxy_url=found["proxy_url"], base_urls=found["base_urls"], git_urls=found["git_urls"]),
            forwards=tuple((port, Path(path)) for port, path in found["forwards"]),
            hidden=Hidden(
                variables=frozenset(found["variables"]),
                files=tuple(map(Path, found["files"])),
                rules=tuple(map(Path, found["rules"])),
            ),
            trust=TrustFiles(**trust),
            state=Path(found["state"]),
            log=Path(found["log"]),
        )


@final
@dataclass(slots=True)
class Tally:
    """What was decided. `refused`: by reason, or rule where there is no reason."""

    allowed: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def line(self) -> bytes:
        """The message."""
        return json.dumps({"allowed": self.allowed, "refused": self.refused}).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> "Tally":
        """The message in a line that `line` made."""
        found = json.loads(line)
        return cls(found["allowed"], found["refused"])

    def __str__(self) -> str:
        often = sorted(self.refused.items(), key=lambda pair: (-pair[1], pair[0]))
        reasons = ", ".join(f"{reason} {count}" for reason, count in often)
        return f"allowed {self.allowed}, refused {sum(self.refused.values())}{f' ({reasons})' if reasons else ''}"
