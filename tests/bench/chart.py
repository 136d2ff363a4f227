"""The chart of a run: `python -m bench.chart RUN.json CHART.png`. Bars are ratios: they hold elsewhere too."""

import json
import sys
from pathlib import Path
from typing import Any

from bench.plan import PLAN, Shape
from bench.results import Results, parse, ratio
from bench.targets import BASE, CHECKS, EGRESS, FORWARD, MITM_BASE, MITM_FORWARD, NGINX, RELAY

type Bar = tuple[str, float]

_OURS, _OTHER = "#2f6f9f", "#b0b0b0"


def fronts(results: Results) -> list[Bar]:
    """How many times plain mitmdump's requests a second, by front; what was not measured is left out."""
    wanted = [
        ("base URL", "fronts", BASE, MITM_BASE),
        ("base URL, relay", "fronts", RELAY, MITM_BASE),
        ("broker egress", "fronts", EGRESS, MITM_BASE),
        ("forward proxy", "fronts", FORWARD, MITM_FORWARD),
        ("base URL, new connections", "new", BASE, MITM_BASE),
        ("forward proxy, new connections", "new", FORWARD, MITM_FORWARD),
        ("nginx as a proxy", "fronts", NGINX, MITM_BASE),
    ]
    return [
        (label, value)
        for label, section, target, peer in wanted
        if (value := _ratio(results, section, target, peer, Shape(fresh=section == "new"))) is not None
    ]


def sizes(results: Results) -> list[Bar]:
    """The same of the base URL, by size of the answer and number of connections."""
    shapes = next(section.shapes for section in PLAN if section.name == "sizes")
    return [
        (f"{shape.size.upper()}B, {shape.connections}{', all checks' * (target == CHECKS)}", value)
        for shape in shapes
        for target in (BASE, CHECKS)
        if (value := _ratio(results, "sizes", target, MITM_BASE, shape)) is not None
    ]


def _ratio(results: Results, section: str, target: str, peer: str, shape: Shape) -> float | None:
    return ratio(results.find(section, target, shape), results.find(section, peer, shape))


def draw(results: Results, file: Path) -> None:
    """Write the chart as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2)
    _bars(left, fronts(results), "requests/s, times plain mitmdump (1 KB, 16 connections)")
    _bars(right, sizes(results), "base URL, times plain mitmdump, by size and connections")
    figure.supxlabel(results.facts.get("machine", ""), fontsize=7, color="#777777")
    figure.savefig(file, metadata={"Software": None})


def _bars(axes: Any, bars: list[Bar], title: str) -> None:
    labels, values = [label for label, _ in bars], [value for _, value in bars]
    drawn = axes.barh(labels, values, color=[_OTHER if "nginx" in label else _OURS for label in labels])
    axes.bar_label(drawn, [f" {value:.1f}" for value in values], fontsize=8)
    axes.axvline(1, color="#777777", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xscale("log")  # nginx is far away
    axes.set_xlim(min([0.5, *values]) * 0.8, max([2, *values]) * 2)
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    try:
        run = parse(json.loads(Path(sys.argv[1]).read_text()))
    except OSError as error:
        sys.exit(f"error: `{sys.argv[1]}`: {error.strerror}; write it with: make bench ARGS='--json {sys.argv[1]}'")
    draw(run, Path(sys.argv[2]))
