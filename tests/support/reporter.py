"""A process that reports for one box again and again: it prints a number once the report with that number is stored.

Started by a test as `python -m support.reporter URL STATE BOX FIRST`, and killed at any moment.
"""

import asyncio
import sys
from pathlib import Path

from grants.broker.declaration import Declaration, Kept, Report
from proxy.settings.database import parse_database
from proxy.store import Store, StoreUnavailable


async def main(url: str, state: str, box: str, first: str) -> None:
    store = await Store.open(parse_database(url, state=Path(state)))
    number = int(first)
    while True:
        kept = Kept(name="inference", scope=(f"word-{number}",))
        report = Report(declaration=Declaration(broker="lobby", capabilities=(kept,)))
        try:
            await store.save_report(box, report, at=str(number))
        except StoreUnavailable:
            # The one that was killed may come in between: its server goes on for a moment. Then it is sent again.
            continue
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += 1


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
