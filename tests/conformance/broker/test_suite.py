"""The suite itself: it passes a broker that holds the protocol, and fails each that breaks a rule."""

import pytest
from conformance.broker.checks import CHECKS, MESSAGE, MESSAGES
from conformance.broker.reference import Fault
from conformance.broker.standins import instance
from conformance.broker.start import local_broker, named_broker
from conformance.broker.target import BOX_A, BOX_B, NotServed

pytestmark = pytest.mark.xdist_group("broker")

IDS = """
declaration-kept declaration-unknown-token declaration-malformed declaration-listing-spend unreported-refused
inference-hello inference-forwards inference-unknown-route inference-unknown-token inference-agent-refused
decide-answers decide-refused decide-invalid decide-unknown-token
egress-forwards egress-refused egress-unheld egress-bad-name
feedback-taken feedback-refused feedback-empty fountain-forwards fountain-refused payer-consistent token-isolation
""".split()  # noqa: SIM905 - one word an id

SCOPES = {
    *("unreported-refused", "inference-agent-refused", "decide-refused", "egress-refused", "feedback-refused"),
    *("fountain-refused", "declaration-malformed"),
}


def failing(fault: Fault | None) -> set[str]:
    with local_broker(fault) as broker:
        failed = set()
        for identity, check in CHECKS.items():
            try:
                check(broker)
            except AssertionError:
                failed.add(identity)
        return failed


def test_every_check_is_there() -> None:
    """One check under each of the specification's ids, in its order."""
    assert list(CHECKS) == IDS


@pytest.mark.parametrize(
    ("fault", "failed"),
    [
        pytest.param(None, set(), id="none"),
        pytest.param(Fault.GRANTS_EVERY_SCOPE, SCOPES, id="grants every scope"),
        pytest.param(Fault.PASSES_TOKEN_ON, {"token-isolation"}, id="passes the token on"),
        pytest.param(
            Fault.ASKS_BEFORE_REFUSING,
            {"unreported-refused", "inference-agent-refused", "declaration-malformed"},
            id="asks before it refuses",
        ),
        pytest.param(Fault.REPEATS_VALUE, {"egress-forwards", "token-isolation"}, id="repeats the value"),
    ],
)
def test_faults_are_found(fault: Fault | None, failed: set[str]) -> None:
    """A broker that breaks one rule fails exactly the checks of that rule."""
    assert failing(fault) == failed


def test_a_broker_by_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that runs already is told by its URL and tokens; what it does not serve is skipped."""
    with local_broker() as local:
        monkeypatch.setenv("BROKER_TOKEN_A", local.tokens[BOX_A])
        monkeypatch.setenv("BROKER_TOKEN_B", local.tokens[BOX_B])
        monkeypatch.setenv("BROKER_CAPABILITIES", "feedback")
        monkeypatch.setenv("BROKER_STANDINS", "0,0,0")
        with named_broker(local.url) as broker:
            CHECKS["declaration-kept"](broker)
            CHECKS["feedback-refused"](broker)
            with pytest.raises(NotServed):
                CHECKS["inference-hello"](broker)
            assert broker.call("POST", MESSAGES, body=MESSAGE).status == 403


def test_instances_fit_their_schema() -> None:
    """The stand-in answers a structured request from its schema."""
    number = {"type": "number"}
    schema = {
        "type": "object",
        "properties": {
            "a": number,
            "b": number,
            "c": {"enum": ["x"]},
            "d": {"type": "array"},
            "e": {"type": "boolean"},
        },
    }
    assert instance(schema) == {"a": 0.5, "b": 0.5, "c": "x", "d": [], "e": True}
    assert (instance(number), instance({"type": "string"})) == (0, "because the stand-in says so")
