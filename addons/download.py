"""Carries a relayed answer to the client, each piece as it comes.

The head goes with the first piece where that is there already, so that a short answer is one write; it never waits for
anything, neither for a piece nor for what a screen holds back.
"""

from collections.abc import Iterable

from .exchange import Exchange
from .relay_rules import Screen
from .streams import ClientChannel, UpstreamStream


async def download(
    exchange: Exchange,
    client: ClientChannel,
    stream: UpstreamStream,
    head: bytes,
    screen: Screen | None,
    *,
    chunked: bool,
) -> None:
    """Send `head`, then the body piece by piece.

    Args:
        screen: looks at the body; None: nobody does.
        chunked: the body goes out in chunks.

    Raises:
        Withheld: the body holds what may not go on.
        UpstreamFailed, ClientLeft: a side has failed.
    """
    unsent = head

    async def send(framed: bytes) -> None:
        nonlocal unsent
        framed, unsent = unsent + framed, b""
        if framed:
            await client.write(framed)

    async def parts(some: Iterable[bytes]) -> None:
        for part in some:
            await send(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)

    async def read() -> bytes:
        if unsent and not stream.ready:
            await send(b"")
        return await stream.read()

    try:
        while piece := await read():
            exchange.bytes_in += len(piece)
            await parts((piece,) if screen is None else screen.feed(piece))
        await parts(() if screen is None else screen.finish())
    except Exception:
        # Whoever gets no byte at all may send the request again.
        await send(b"")
        raise
    await send(b"0\r\n\r\n" if chunked else b"")
