"""Which broker the suite runs against: the one that `BROKER_URL` names, or one that is started here.

`local_broker` is the one place that knows how a broker of our own is started.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.proxyproc import Proxy

from .reference import TOKENS, Fault, reference_broker
from .standins import Standins
from .target import BOX_A, BOX_B, SECRET, STANDARD, Broker, Environment

_UPSTREAMS = ("anthropic", "fountain", "egress")


@contextmanager
def local_broker(fault: Fault | None = None) -> Iterator[Broker]:
    """A broker started for this run, with stand-ins on free ports."""
    with Standins() as standins:
        environment = Environment(upstreams={name: standins.url(name) for name in _UPSTREAMS})
        if fault is not None:
            with reference_broker(environment, fault) as url:
                yield Broker(url=url, tokens=TOKENS, environment=environment, standins=standins)
            return
        with tempfile.TemporaryDirectory() as folder, _own(Path(folder), environment) as proxy:
            yield Broker(url=proxy.ready["broker"], tokens=TOKENS, environment=environment, standins=standins)


def _own(folder: Path, environment: Environment) -> Proxy:
    """The program itself, with the settings that the suite asks for."""
    tokens = {"TOKEN_A": TOKENS[BOX_A], "TOKEN_B": TOKENS[BOX_B]}
    credentials = {"HOUSE": environment.anthropic, "FOUNTAIN": environment.fountain, "VALUE": environment.secret}
    settings = {
        "boxes": [
            {"name": BOX_A, "token": "env:TOKEN_A", "fountain": {"conversations": ["conformance"]}},
            {"name": BOX_B, "token": "env:TOKEN_B"},
        ],
        "broker": {
            "listen": "127.0.0.1:0",
            "word": environment.word,
            "anthropic": {"url": environment.upstreams["anthropic"], "credential": "env:HOUSE"},
            "fountain": {"url": environment.upstreams["fountain"], "credential": "env:FOUNTAIN"},
            "secrets": [
                {"name": SECRET, "box": BOX_A, "host": environment.upstreams["egress"], "value": "env:VALUE"},
            ],
        },
    }
    return Proxy(folder, settings, tokens | credentials)


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
