"""What a reader of requests makes of a stream."""

from collections.abc import Iterable

from addons.front.events import HeadRead, ReadEvent
from addons.front.reader import RequestReader


def events_of(reader: RequestReader, pieces: Iterable[bytes], *, limit: int) -> list[ReadEvent]:
    """Every event of a stream that comes in pieces; bodies of at most `limit` bytes."""
    events: list[ReadEvent] = []
    for piece in pieces:
        reader.feed(piece)
        while (event := reader.next_event()) is not None:
            events.append(event)
            if isinstance(event, HeadRead) and event.body != 0:
                reader.read_body(limit)
    return events
