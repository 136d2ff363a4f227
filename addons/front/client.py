"""A client connection, as its layer sees it. `proxy` implements it; tests may too."""

from typing import Protocol

from addons.exchange import Exchange
from addons.hooks import Hook

from .inbox import Inbox


class Client(Protocol):
    """The connection ends when its layer has nothing more to say.

    Attributes:
        inbox: what came from the client.
    """

    inbox: Inbox

    def send(self, data: bytes) -> None:
        """Send, unless the connection is closed."""
        ...

    async def write(self, data: bytes) -> None:
        """Send a piece of a stream, and wait until the client has taken enough.

        Raises:
            ClientLeft: nobody takes it.
        """
        ...

    def finish(self) -> None:
        """Nothing more is sent: the client sees the end (half-close)."""
        ...

    async def ask(self, hook: Hook, exchange: Exchange) -> None:
        """Run the chain for `exchange`. Never raises: what fails is a refusal."""
        ...
