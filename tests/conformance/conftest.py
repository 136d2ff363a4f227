"""One proxy for all rows: each grant is two endpoints, with a TLS upstream and with a bare port as upstream."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.cases import SECRETS, grant_names, grant_text
from support.certificates import Certificates
from support.conformance_field import Field
from support.proxyproc import Proxy
from support.upstream import DarkPort, Upstream


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Field]:
    folder: Path = tmp_path_factory.mktemp("conformance")
    with ExitStack() as stack:
        other = stack.enter_context(Upstream(certificates))
        lit = {name: stack.enter_context(Upstream(certificates)) for name in grant_names()}
        dark = {name: stack.enter_context(DarkPort()) for name in grant_names()}
        endpoints = []
        for name in grant_names():
            file = folder / f"{name}.grant.yaml"
            file.write_text(grant_text(name, other.url))
            for endpoint, port in ((name, lit[name].port), (f"{name}-dark", dark[name].port)):
                endpoints.append(
                    {
                        "name": endpoint,
                        "upstream": f"https://localhost:{port}",
                        "assurance": "semantic",
                        "grant": file.name,
                        "secrets": {key: f"env:CASE_{key.upper()}" for key in SECRETS},
                        "listen": "127.0.0.1:0",
                        "ca": str(certificates.ca),
                    }
                )
        environment = {f"CASE_{key.upper()}": value for key, value in SECRETS.items()}
        proxy = Proxy(folder, {"endpoints": endpoints}, environment)
        yield Field(stack.enter_context(proxy), other, lit, dark)
