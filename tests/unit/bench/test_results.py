"""From rounds to what is printed: medians, ratios of the same round, goals, and the plan that --only leaves."""

import json

import pytest
from bench import chart, wrk
from bench.goals import verdicts
from bench.load import Job
from bench.payload import SIZES, document, grant
from bench.plan import PLAN, Shape, plan
from bench.report import report
from bench.results import Results, Round, Row, cpu_ratio, parse, rate, ratio
from bench.targets import BASE, DIRECT, MITM_BASE, NGINX, TARGETS

from grants.load import load_grant


def row(target: str, *rates: float, section: str = "fronts", shape: Shape | None = None, cpu: float = 50.0) -> Row:
    rounds = [Round(value, 1000 / value, 2000 / value, cpu, 0.5) for value in rates]
    return Row(section, target, MITM_BASE, shape or Shape(), 10**8, 2 * 10**8, rounds)


def test_ratios_are_of_the_same_round() -> None:
    """A round that was slow for all changes no ratio: its halves are compared, then the median is taken."""
    ours, peer = row(BASE, 1000, 100, 1200), row(MITM_BASE, 100, 10, 120)
    assert ratio(ours, peer) == 10
    assert ours.median(rate) == 1000
    assert ratio(ours, None) is None
    assert ratio(ours, row(MITM_BASE)) is None


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        pytest.param(1200, ["met", "met"], id="both met"),
        pytest.param(1199, ["missed", "met"], id="one missed by a hair"),
        pytest.param(900, ["missed", "missed"], id="both missed"),
    ],
)
def test_goals(ours: float, words: list[str]) -> None:
    """A goal is met from its bound on, missed below, and of what was not measured nothing is claimed."""
    results = Results({}, [row(BASE, ours), row(MITM_BASE, 100), row(NGINX, 4700)])
    found = [verdict.word for verdict in verdicts(results)]
    assert found[:2] == words
    assert set(found[2:]) == {"not measured"}


@pytest.mark.parametrize(("added", "word"), [(0.6, "met"), (0.61, "missed")])
def test_a_goal_that_is_an_upper_bound(added: float, word: str) -> None:
    """The added latency is a difference of medians, and may be at most its bound."""
    shape = Shape(connections=1)
    direct = row(DIRECT, 10000, section="latency", shape=shape)
    ours = Row("latency", BASE, DIRECT, shape, rounds=[Round(1, direct.rounds[0].p50 + added - 1e-9, 9, 1, 0.1)])
    assert verdicts(Results({}, [direct, ours]))[-1].word == word


def test_a_run_survives_its_file() -> None:
    """What is written with --json is what the chart reads."""
    results = Results({"machine": "m"}, [row(BASE, 1200), row(MITM_BASE, 100)], {"2 workers": "refused"})
    again = parse(json.loads(json.dumps(results.document())))
    assert again == results
    assert chart.fronts(again) == [("base URL", 12.0)]
    assert chart.sizes(again) == []


def test_the_report_tells_when_the_load_is_the_limit() -> None:
    """A row whose load took a core says so; facts, skipped targets and every goal are there."""
    busy = row(BASE, 1200)
    busy.rounds = [Round(1200, 1, 2, None, 0.97)]
    text = "\n".join(report(Results({"machine": "m"}, [busy, row(MITM_BASE, 100)], {"2 workers": "refused"})))
    lines = {line[:28].strip(): line for line in text.splitlines()}
    assert lines[BASE].endswith("97%*")
    assert lines[MITM_BASE].endswith("50%")
    assert "machine: m" in text
    assert "skipped: 2 workers: refused" in text
    assert " 12.00 x  met\n" in text


@pytest.mark.parametrize(("others", "warned"), [(0.1, False), (0.11, True)])
def test_the_report_tells_when_the_machine_is_busy(others: float, warned: bool) -> None:
    """What others took of the cores is told, and above a tenth also that it makes the ratios rough."""
    one = row(BASE, 1200)
    one.rounds = [Round(1200, 1, 2, 50, 0.5, others)]
    (line,) = (line for line in report(Results({}, [one])) if line.startswith("others: "))
    assert f"took {others:.0%} of the cores" in line
    assert ("rough" in line) is warned


def test_less_cpu_is_a_larger_ratio() -> None:
    """Half of the CPU a request is a ratio of two; where there is no proxy there is none."""
    assert cpu_ratio(row(BASE, 1, cpu=50), row(MITM_BASE, 1, cpu=100)) == 2
    nothing = Row("latency", DIRECT, "", Shape(), rounds=[Round(1, 1, 1, None, 0.1)])
    assert cpu_ratio(row(BASE, 1), nothing) is None


def test_the_plan_names_what_exists() -> None:
    """Every target of a section can be started, every peer is one of the section's own."""
    for section in PLAN:
        assert set(section.targets) <= set(TARGETS), section.name
        assert {peer for peer in section.targets.values() if peer} <= set(section.targets), section.name
        assert all(shape.size in SIZES for shape in section.shapes)


@pytest.mark.parametrize("quick", [False, True])
def test_only(quick: bool) -> None:
    """Sections by name; targets by part of a name, with those that their ratios are to."""
    assert [one.name for one in plan(["new", "fronts"], quick=quick)] == ["fronts", "new"]
    (fronts,) = plan(["fronts", "nginx"], quick=quick)
    assert list(fronts.targets) == [MITM_BASE, NGINX]
    with pytest.raises(ValueError, match="`nothing` is no section"):
        plan(["nothing"], quick=quick)


def test_the_quick_run_measures_all_goals() -> None:
    """Less is measured, but every goal is."""
    rows = [
        row(target, 100, section=section.name, shape=shape)
        for section in plan([], quick=True)
        for target in section.targets
        for shape in section.shapes
    ]
    assert not [one.goal.text for one in verdicts(Results({}, rows)) if one.value is None]


@pytest.mark.parametrize("size", list(SIZES))
def test_documents_have_their_size(size: str) -> None:
    """Exactly so many bytes, and what the grants' schemas describe."""
    body = document(SIZES[size])
    assert len(body) == SIZES[size]
    items = json.loads(body)["items"]
    assert len(items) > SIZES[size] / 400


@pytest.mark.parametrize("operations", [1, 10, 2000])
def test_grants_load(operations: int) -> None:
    """So many operations fit a file, and the one asked for is the last."""
    loaded = load_grant(grant(["1k"], others=operations - 1), file="bench.yaml")
    assert len(loaded.operations) == operations
    assert loaded.operations[-1].name == "get-1k"
    load_grant(grant(list(SIZES), full=True), file="bench.yaml")


@pytest.mark.parametrize(("changing", "blocks"), [(False, 1), (True, 1000)])
def test_requests_vary(changing: bool, blocks: int) -> None:
    """1,000 different requests, so that no memory of whole requests helps; nor one of fields where they change."""
    job = Job(host="h", port=1, path="/1k/", length=1, authority="h:1", connections=1, seconds=1, changing=changing)
    requests = job.requests()
    assert len(set(requests)) == 1000
    assert requests[0].startswith(b"GET /1k/1 HTTP/1.1\r\nHost: h:1\r\nAuthorization: ")
    assert all(request.endswith(b"\r\n\r\n") for request in requests)
    assert len({request.partition(b"\r\n")[2] for request in requests}) == blocks
    assert not (changing and wrk.can(job))


def test_wrk_is_read() -> None:
    """Its summary, in seconds; errors end the run with its words."""
    assert wrk.parse("x\nDONE 1000 2000000 1500 9000 0\n") == {"count": 1000, "seconds": 2, "p50": 0.0015, "p99": 0.009}
    for output in ("DONE 1000 2000000 1500 9000 3\n", "DONE 0 2000000 0 0 0\n", "unable to connect"):
        with pytest.raises(SystemExit, match="wrk: "):
            wrk.parse(output)
