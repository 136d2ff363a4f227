"""Request capture: what an agent asked for, as it came, for whoever writes a grant. Opt-in, an endpoint at a time.

References are still in place and the box's token is taken out: nothing that the proxy holds gets here. Answers are
never captured. A capture that fails is no reason to refuse a request: the decision log is the record.
Source: "Capture" in docs/reference/settings.md.
"""

import base64
import logging
from dataclasses import dataclass
from typing import Final

from .exchange import Exchange

log = logging.getLogger(__name__)

BODY_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Capture:
    """Writes requests of endpoints that ask for it, allowed or refused."""

    def broker_head(self, exchange: Exchange) -> None:
        """A head that was refused is all there is."""
        if exchange.settled:
            self.broker_request(exchange)

    def broker_request(self, exchange: Exchange) -> None:
        """The request has been answered; its record is still to come."""
        service, head = exchange.service, exchange.head
        if service is None or service.capture is None or head is None:
            return
        body = exchange.body or bytes(exchange.body_prefix)
        try:
            service.capture.write(
                {
                    "id": exchange.id,
                    "method": head.method.decode("latin-1"),
                    "target": head.target.decode("latin-1"),
                    "fields": [
                        [name.decode("latin-1"), value.decode("latin-1")]
                        for name, value in head.fields
                        if name.lower() != b"proxy-authorization"
                    ],
                    "body": base64.b64encode(body[:BODY_BYTES]).decode(),
                    "cut": max(exchange.bytes_out, exchange.announced or 0, len(body)) > min(len(body), BODY_BYTES),
                }
            )
        except Exception as error:
            log.error("%s: not captured (%s)", exchange.id, type(error).__name__)  # noqa: TRY400 - one line is enough
