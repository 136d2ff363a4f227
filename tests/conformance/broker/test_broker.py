"""The specification's checks of a broker, one test each, under the check's own id."""

from collections.abc import Iterator

import pytest
from conformance.broker.checks import CHECKS
from conformance.broker.start import broker_under_test
from conformance.broker.target import Broker, NotServed

pytestmark = pytest.mark.xdist_group("broker")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with broker_under_test() as running:
        yield running


@pytest.mark.parametrize("identity", CHECKS)
def test_check(broker: Broker, identity: str) -> None:
    """The broker holds what the specification's table of checks says under this id."""
    try:
        CHECKS[identity](broker)
    except NotServed as not_served:
        pytest.skip(str(not_served))
