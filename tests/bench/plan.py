"""What a run measures, section by section. The large answers come last: they leave memory behind."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.targets import (
    BASE,
    CHANGING,
    CHECKS,
    DIRECT,
    EGRESS,
    FORWARD,
    FORWARD_CHECKS,
    FORWARD_RELAY,
    MITM_BASE,
    MITM_FORWARD,
    NGINX,
    RELAY,
)


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """How a target is asked. `size`: a word of `payload.SIZES`; `fresh`: a new connection for each request."""

    size: str = "1k"
    connections: int = 16
    fresh: bool = False

    def __str__(self) -> str:
        return f"{self.size.upper()}B, {self.connections} connection{'s' * (self.connections > 1)}" + (
            ", new for each request" if self.fresh else ""
        )


@dataclass(frozen=True, slots=True)
class Section:
    """`targets`: each with the one that its ratio is to, or ""."""

    name: str
    title: str
    targets: dict[str, str]
    shapes: tuple[Shape, ...] = (Shape(),)


_GRANTS = ["1 operations", "10 operations", "100 operations", "2,000 operations"]

PLAN = (
    Section(
        "fronts",
        "Each front, kept alive",
        {
            BASE: MITM_BASE, CHANGING: MITM_BASE, RELAY: MITM_BASE, EGRESS: MITM_BASE,
            FORWARD: MITM_FORWARD, FORWARD_RELAY: MITM_FORWARD,
            MITM_BASE: "", MITM_FORWARD: "", NGINX: MITM_BASE,
        },
    ),
    Section(
        "new",
        "A new connection for each request, no TLS session resumed",
        {
            BASE: MITM_BASE, EGRESS: MITM_BASE, FORWARD: MITM_FORWARD,
            MITM_BASE: "", MITM_FORWARD: "", NGINX: MITM_BASE,
        },
        (Shape(fresh=True),),
    ),
    Section("grants", "Grants of many operations, the one asked for last", dict.fromkeys(_GRANTS, "10 operations")),
    Section("workers", "Workers", dict.fromkeys(["1 worker", "2 workers"], "1 worker"), (Shape(), Shape("64k"))),
    Section(
        "latency",
        "One connection, beside no proxy",
        {DIRECT: "", BASE: DIRECT, FORWARD: DIRECT, EGRESS: DIRECT, NGINX: DIRECT, MITM_BASE: DIRECT},
        (Shape(connections=1),),
    ),
    Section(
        "sizes",
        "Sizes and connections, base URL",
        {BASE: MITM_BASE, CHECKS: MITM_BASE, MITM_BASE: "", NGINX: MITM_BASE},
        # 256 answers of 1 MB at a time say more about memory than about a proxy
        (*(Shape(size, count) for size in ("1k", "64k") for count in (1, 16, 256)), Shape("1m", 1), Shape("1m", 16)),
    ),
    Section(
        "checks",
        "All checks on: header patterns, five secrets, both schemas",
        {FORWARD: MITM_FORWARD, FORWARD_CHECKS: MITM_FORWARD, MITM_FORWARD: ""},
        (Shape("1k"), Shape("64k")),
    ),
)  # fmt: skip
_QUICK = {
    "fronts": [BASE, CHANGING, EGRESS, FORWARD, MITM_BASE, MITM_FORWARD, NGINX],
    "new": [FORWARD, MITM_FORWARD],
    "sizes": [BASE, CHECKS, MITM_BASE, NGINX],
    "grants": ["10 operations", "2,000 operations"],
    "workers": ["1 worker", "2 workers"],
    "latency": [DIRECT, BASE, FORWARD],
}
"""What the goals need: these targets, and of sizes 64 KB alone."""


def plan(only: Sequence[str], *, quick: bool) -> list[Section]:
    """The sections of a run.

    Args:
        only: names of sections, and parts of names of targets, which keep the targets that their ratios are to.

    Raises:
        ValueError: a word of `only` is part of no name. The message lists the names.
    """
    sections = [_quick(one) for one in PLAN if one.name in _QUICK] if quick else list(PLAN)
    names = {one.name for one in PLAN}
    if chosen := names.intersection(only):
        sections = [one for one in sections if one.name in chosen]
    parts = [word for word in only if word not in names]
    known = sorted({target for one in sections for target in one.targets})
    for part in parts:
        if not any(part in target for target in known):
            raise ValueError(
                f"`{part}` is no section ({', '.join(sorted(names))}) and in no target of: {'; '.join(known)}"
            )
    if parts:
        sections = [replace(one, targets=_with_peers(one.targets, parts)) for one in sections]
    return [one for one in sections if one.targets]


def _quick(section: Section) -> Section:
    targets = {name: section.targets[name] for name in _QUICK[section.name]}
    return replace(section, targets=targets, shapes=(Shape("64k"),) if section.name == "sizes" else section.shapes[:1])


def _with_peers(targets: dict[str, str], parts: list[str]) -> dict[str, str]:
    wanted = {name for name in targets if any(part in name for part in parts)}
    wanted |= {targets[name] for name in wanted}
    return {name: peer for name, peer in targets.items() if name in wanted}
