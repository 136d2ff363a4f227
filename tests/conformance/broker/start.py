"""Which broker the suite runs against: the one that `BROKER_URL` names, or one that is started here.

`local_broker` is the one place that knows how a broker of our own is started.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from .reference import TOKENS, Fault, reference_broker
from .standins import Standins
from .target import BOX_A, BOX_B, STANDARD, Broker, Environment

_UPSTREAMS = ("anthropic", "fountain", "egress")


@contextmanager
def local_broker(fault: Fault | None = None) -> Iterator[Broker]:
    """A broker started for this run, with stand-ins on free ports."""
    with Standins() as standins:
        environment = Environment(upstreams={name: standins.url(name) for name in _UPSTREAMS})
        with reference_broker(environment, fault) as url:
            yield Broker(url=url, tokens=TOKENS, environment=environment, standins=standins)


@contextmanager
def named_broker(url: str) -> Iterator[Broker]:
    """The broker that runs at `url`; what it was given is in the environment (see `target`)."""
    ports = [int(port) for port in os.environ.get("BROKER_STANDINS", "9201,9202,9203").split(",")]
    with Standins((ports[0], ports[1], ports[2])) as standins:
        defaults = Environment(upstreams={})
        environment = Environment(
            upstreams={name: standins.url(name) for name in _UPSTREAMS},
            word=os.environ.get("BROKER_WORD", defaults.word),
            anthropic=os.environ.get("BROKER_ANTHROPIC_CREDENTIAL", defaults.anthropic),
            fountain=os.environ.get("BROKER_FOUNTAIN_CREDENTIAL", defaults.fountain),
            secret=os.environ.get("BROKER_SECRET_VALUE", defaults.secret),
        )
        yield Broker(
            url=url,
            tokens={BOX_A: os.environ["BROKER_TOKEN_A"], BOX_B: os.environ["BROKER_TOKEN_B"]},
            environment=environment,
            standins=standins,
            served=tuple(os.environ.get("BROKER_CAPABILITIES", ",".join(STANDARD)).split(",")),
        )


@contextmanager
def broker_under_test() -> Iterator[Broker]:
    """The broker that the suite is about."""
    url = os.environ.get("BROKER_URL")
    with named_broker(url) if url else local_broker() as broker:
        yield broker
