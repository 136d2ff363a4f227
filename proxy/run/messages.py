"""What the proxy's process tells the one that started it: where it listens, and at the end what it decided.

One JSON line each, over a pipe that nobody else has. No credential is in them, but the token
of a box that the program is.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, final

from addons.record import Event, Record
from grants.decision import Reason
from proxy.client_env.addresses import Addresses
from proxy.client_env.trust import TrustFiles
from proxy.decisionlog.remedies import ANSWERS, REMEDIES, once
from proxy.run.served import Hidden

_MOST_NAMES: Final = 64
_SHOWN: Final = 5


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
    """What was decided.

    Attributes:
        refused: by reason, or rule where there is no reason.
        unknown: how often each host was asked for that is no endpoint; of 64 hosts at most.
        answered: how often an upstream refused: by endpoint and status, such as `api 401`.
    """

    allowed: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)

    def count(self, record: Record) -> None:
        """Count one record; that of an intent or of an end is no decision."""
        if record.event is Event.ALLOW:
            self.allowed += 1
        elif record.event is Event.DENY:
            _more(self.refused, record.reason or record.rule or "-")
            if record.reason == Reason.HOST_UNKNOWN and record.host is not None:
                _more(self.unknown, record.host)
        else:
            return
        if record.upstream_status in ANSWERS:
            _more(self.answered, f"{record.endpoint or '-'} {record.upstream_status}")

    def hints(self) -> Iterator[str]:
        """What helps, a line each: for hosts that are no endpoint, and for what upstreams refused."""
        if self.unknown:
            yield f"{Reason.HOST_UNKNOWN}: {_often(self.unknown, most=_SHOWN)}; {REMEDIES[Reason.HOST_UNKNOWN]}"
        told: dict[str, str] = {}
        for name, count in self.answered.items():
            endpoint, _, status = name.rpartition(" ")
            what = f"{endpoint} answered {status}"
            yield f"{what}: {count}; {once(told, ANSWERS[int(status)], what)}"

    def line(self) -> bytes:
        """The message."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> "Tally":
        """The message in a line that `line` made."""
        return cls(**json.loads(line))

    def __str__(self) -> str:
        reasons = _often(self.refused)
        return f"allowed {self.allowed}, refused {sum(self.refused.values())}{f' ({reasons})' if reasons else ''}"


def _more(counts: dict[str, int], name: str) -> None:
    """One more of `name`, unless so many others were counted that it could be anything that a client thinks of."""
    if name in counts or len(counts) < _MOST_NAMES:
        counts[name] = counts.get(name, 0) + 1


def _often(counts: Mapping[str, int], *, most: int | None = None) -> str:
    """The most frequent first, with how often; `most` of them."""
    often = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count}" for name, count in often[:most])
