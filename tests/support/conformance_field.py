"""One proxy for all conformance rows, and what stands behind it: see tests/conformance/conftest.py."""

from dataclasses import dataclass, field

from support.cases import Case, Names
from support.client import Client
from support.proxyproc import Proxy
from support.upstream import DarkPort, Upstream


@dataclass(slots=True)
class Field:
    """The running proxy and all that stands behind it."""

    proxy: Proxy
    other: Upstream
    lit: dict[str, Upstream] = field(default_factory=dict)
    dark: dict[str, DarkPort] = field(default_factory=dict)

    def names(self, case: Case, front: str) -> Names:
        """What the placeholders of the row's request mean at a front."""
        if front == "base":
            host, port = self.proxy.endpoint(self.endpoint(case))
            return Names(f"{host}:{port}", port, self.other.url)
        return self.upstream_names(case)

    def upstream_names(self, case: Case) -> Names:
        """What the placeholders of the row's answers mean."""
        port = self.behind(case).port
        return Names(f"localhost:{port}", port, self.other.url)

    def endpoint(self, case: Case) -> str:
        return f"{case.grant}-dark" if case.dark else case.grant

    def behind(self, case: Case) -> Upstream | DarkPort:
        return self.dark[case.grant] if case.dark else self.lit[case.grant]

    def open(self, case: Case, front: str) -> Client:
        """A connection to the row's endpoint through a front."""
        if front == "base":
            return self.proxy.base(self.endpoint(case))
        return self.proxy.tunnel(f"localhost:{self.behind(case).port}")
