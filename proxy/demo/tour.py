"""The tour: every call told as it is made, then the records that it left."""

import http.client
import secrets
import tempfile
import threading
from pathlib import Path
from typing import Final, final

import click
from rich.console import Console
from rich.text import Text

from .api import SampleApi
from .calls import CHAPTERS, Call, Front
from .certificates import write_certificates
from .client import Outcome, place
from .server import GRANT, DemoProxy, NotReady

_ALLOWED: Final = "bold green"
_REFUSED: Final = "bold yellow"
_WRONG: Final = "bold red"


def run_demo(*, keep: bool) -> bool:
    """Run the tour; with `keep` stay up afterwards until interrupted. True when every outcome was the expected one.

    Raises:
        NotReady: the proxy did not start.
    """
    token = f"demo-{secrets.token_hex(16)}"
    with tempfile.TemporaryDirectory(prefix="grantproxy-demo-") as name:
        folder = Path(name)
        files = write_certificates(folder)
        with (
            SampleApi(files.server) as api,
            DemoProxy(folder, api=f"localhost:{api.port}", authority=files.authority, token=token) as proxy,
        ):
            tour = _Tour(api, proxy, token)
            tour.introduce()
            tour.walk()
            tour.show_records()
            good = tour.conclude()
            if keep:
                tour.stay()
        return good


@final
class _Tour:
    def __init__(self, api: SampleApi, proxy: DemoProxy, token: str) -> None:
        self._api = api
        self._proxy = proxy
        self._token = token
        self._console = Console(highlight=False, soft_wrap=True)
        self._wrong = 0
        self._count = 0

    def introduce(self) -> None:
        self._say("grantproxy demo", style="bold")
        self._say("")
        self._say(f"  sample API    https://{self._proxy.fronts.api} (TLS, an authority of its own)")
        self._say(f"  base URL      {self._proxy.fronts.base}")
        self._say(f"  HTTPS_PROXY   {self._proxy.fronts.proxy}")
        self._say(f"  grant         {GRANT}")
        self._say("  the agent sends `Bearer @secret:api` and never holds the token")

    def walk(self) -> None:
        for chapter in CHAPTERS:
            self._say("")
            self._say(chapter.title, style="bold")
            for call in chapter.calls:
                self._tell(call)

    def show_records(self) -> None:
        self._say("")
        self._say("The decision log (grantproxy audit show)", style="bold")
        self._say(self._proxy.audit("show").stdout.rstrip("\n"))
        self._say("")
        verified = self._proxy.audit("verify")
        self._say("Its chain (grantproxy audit verify)", style="bold")
        self._say((verified.stdout or verified.stderr).rstrip("\n"))
        if verified.returncode:
            self._wrong += 1
        if self._token in self._proxy.log.read_text():
            self._wrong += 1
            self._say("the log holds the credential", style=_WRONG)

    def conclude(self) -> bool:
        self._say("")
        if self._wrong:
            self._say(f"{self._wrong} of {self._count} outcomes were not as expected", style=_WRONG)
            return False
        self._say(f"all {self._count} calls came out as expected; {self._api.requests} requests reached the API")
        return True

    def stay(self) -> None:
        fronts = self._proxy.fronts
        self._say("")
        self._say("Try it (Ctrl-C ends it):", style="bold")
        field = "-H 'User-Agent:' -H 'Accept:' -H 'Authorization: Bearer @secret:api'"
        self._say(f"  curl {field} {fronts.base}/repos/acme/widgets")
        self._say(
            f"  HTTPS_PROXY={fronts.proxy} curl --noproxy '' --cacert {fronts.ca} {field}"
            f" 'https://{fronts.api}/repos/acme/widgets/issues?state=open'"
        )
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            self._say("")

    def _tell(self, call: Call) -> None:
        self._count += 1
        before = self._api.requests
        try:
            outcome = place(call, self._proxy.fronts)
        except (OSError, http.client.HTTPException) as error:
            outcome = Outcome(status=0, detail=f"no answer: {type(error).__name__}")
        reached = self._api.requests - before
        good = (outcome.status, outcome.rule, reached) == (call.status, call.rule, call.reaches)
        if call.reaches and self._api.credentials != {f"Bearer {self._token}"}:
            good = False
        style = _WRONG if not good else _ALLOWED if outcome.rule is None else _REFUSED
        shown = call.path if call.authority is None else f"https://{call.authority}{call.path}"
        line = Text("  ").append(f"{call.method} {shown}", style="bold").append(" → ")
        line.append(f"{outcome.status} {outcome.rule or 'allowed'}", style=style)
        line.append(f"  ({'base URL' if call.front is Front.BASE else 'HTTPS_PROXY'})", style="dim")
        self._line(line)
        self._line(Text(f"      {call.why}"))
        if outcome.detail:
            self._line(Text(f"      {outcome.detail}", style="dim"))
        if not good:
            self._wrong += 1
            self._line(
                Text(
                    f"      expected {call.status} {call.rule or 'allowed'}, {call.reaches} requests at the API;"
                    f" there were {reached}",
                    style=_WRONG,
                )
            )

    def _say(self, text: str, style: str = "") -> None:
        self._line(Text(text, style=style))

    def _line(self, text: Text) -> None:
        if self._console.is_terminal:
            self._console.print(text)
        else:
            click.echo(text.plain)


__all__ = ["NotReady", "run_demo"]
