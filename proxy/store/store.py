"""The store: every question and every change is one method, one statement or one transaction.

Nothing is remembered beyond a commit, whoever makes it: a process sees what any other has committed at its next
request. What a box has, it has by its key: the name of a box of the settings, and of an added one its name and number,
so that what a box did that is removed is never that of one that is given its name later.
"""

import hmac
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, Final, Self, final

from sqlalchemy import ColumnElement, Row, Select, Table, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from addons.boxes import added_key
from grants.broker.declaration import Report
from grants.broker.fountain import Holding, Kind, is_id
from proxy.settings.broker_model import Database

from .engine import Engines, open_engines
from .errors import BoxExists, BoxUnknown, StoreUnavailable, StoreUnsure
from .keys import forget, named
from .owned import given, learn, owners, rehearse
from .recent import Recent
from .reports import Doubts, replace
from .rows import box_of, grant_of, json_text, report_of, report_row, stored
from .schema import BOXES, GRANTS, OWNED, REPORTS
from .tokens import digest, new_grant, new_token
from .values import IssuedGrant, StoredBox, StoredReport, VisitorGrant

_CREDENTIALS: Final = ("env:", "file:")
_AT_ONCE: Final = 400
"""Digests in one question, fewer than either database takes parameters."""
_REMEMBERED: Final = 8
"""Digests in a question whose answer is remembered. Most have one; clients choose them, and memory is for all."""
_KEEP_GRANTS: Final = 30 * 24 * 3600.0
"""How long a grant that has ended is still listed."""


@final
class Store:
    """What the broker remembers. Every method raises `StoreUnavailable` where the database fails.

    One store a process: its connections do not survive a fork. Times are seconds since 1970, from the caller.
    """

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._recent = Recent()
        self._doubts = Doubts()
        self._insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[engines.dialect]

    @classmethod
    async def open(cls, database: Database) -> Self:
        """Open the database, and bring its tables to this version; several processes may do so at once.

        Raises:
            StartRefused: one line with the name of the database, without its password, and the remedy.
        """
        return cls(await open_engines(database))

    async def close(self) -> None:
        """Close the connections."""
        await self._engines.close()

    # --- boxes ---------------------------------------------------------------------------------------------------

    async def box_by_token(self, token: bytes, *, now: float) -> StoredBox | None:
        """The box whose token this is, or was before a rotation whose grace has not ended."""
        return (await self.boxes_by_tokens((token,), clock=lambda: now)).get(token)

    async def boxes_by_tokens(self, tokens: Collection[bytes], *, clock: Callable[[], float]) -> dict[bytes, StoredBox]:
        """Of these texts those that are a box's token, or were before a rotation whose grace has not ended.

        `clock` is read when the answer is there: the question may have to wait.
        """
        wanted = {digest(token): token for token in tokens}
        asked, found = sorted(wanted), {}
        for start in range(0, len(asked), _AT_ONCE):
            some = tuple(asked[start : start + _AT_ONCE])
            for row in await (self._again(self._boxes_of, some) if len(some) <= _REMEMBERED else self._boxes_of(some)):
                live = row.previous_until is not None and row.previous_until > stored(clock())
                for held in (row.token_digest, row.previous_digest if live else None):
                    if held in wanted:
                        found[wanted[held]] = box_of(row)
        return found

    async def _boxes_of(self, digests: tuple[str, ...]) -> tuple[Row[Any], ...]:
        either = or_(BOXES.c.token_digest.in_(digests), BOXES.c.previous_digest.in_(digests))
        return await self._all(select(BOXES).where(either, BOXES.c.removed.is_(None)))

    async def box_by_name(self, name: str) -> StoredBox | None:
        """The box of that name."""
        found = await self._again(self._box_named, name)
        return box_of(found[0]) if found else None

    async def _box_named(self, name: str) -> tuple[Row[Any], ...]:
        return await self._all(select(BOXES).where(BOXES.c.name == name, BOXES.c.removed.is_(None)).limit(1))

    async def list_boxes(self, *, removed: bool = False) -> tuple[StoredBox, ...]:
        """All boxes by name; with `removed` those too that are no more."""
        wanted = select(BOXES).order_by(BOXES.c.name, BOXES.c.id)
        if not removed:
            wanted = wanted.where(BOXES.c.removed.is_(None))
        return tuple(box_of(row) for row in await self._all(wanted))

    async def add_box(
        self,
        name: str,
        *,
        now: float,
        endpoints: Iterable[str] = (),
        tunnels: bool = False,
        owned: Iterable[tuple[Kind, str]] = (),
    ) -> str:
        """Add a box and return its token, which is not stored and cannot be had again.

        Raises:
            BoxExists: the name is taken.
        """
        token = new_token()
        row = {
            "name": name,
            "token_digest": digest(token.encode()),
            "endpoints": json_text(sorted(endpoints)),
            "tunnels": int(tunnels),
            "created": stored(now),
        }
        own = list(owned)

        async def work(connection: AsyncConnection) -> None:
            added = self._insert(BOXES).values(**row).on_conflict_do_nothing().returning(BOXES.c.id)
            number = (await connection.execute(added)).scalar()
            if number is None:
                raise BoxExists(name)
            await forget(connection)
            if own:
                rows = [given(added_key(name, number), kind, identifier) for kind, identifier in own]
                await connection.execute(self._insert(OWNED).on_conflict_do_nothing(), rows)

        await self._engines.write(work)
        return token

    async def rotate_box(self, name: str, *, now: float, grace: float) -> str:
        """Give a box a new token and return it; the one before is taken for `grace` seconds more, an older one not.

        Raises:
            BoxUnknown: there is no such box.
        """
        token = new_token()
        change = (
            update(BOXES)
            .where(BOXES.c.name == name, BOXES.c.removed.is_(None))
            .values(
                token_digest=digest(token.encode()),
                previous_digest=BOXES.c.token_digest if grace > 0 else None,
                previous_until=stored(now + grace) if grace > 0 else None,
                rotated=stored(now),
            )
        )

        async def work(connection: AsyncConnection) -> None:
            if (await connection.execute(change)).rowcount == 0:
                raise BoxUnknown(name)

        await self._engines.write(work)
        return token

    async def remove_box(self, name: str, *, now: float) -> None:
        """Remove a box, its report, its grants and what it owns. Its token is refused at the next request.

        Raises:
            BoxUnknown: there is no such box.
        """
        change = (
            update(BOXES)
            .where(BOXES.c.name == name, BOXES.c.removed.is_(None))
            .values(token_digest=None, previous_digest=None, previous_until=None, removed=stored(now))
        )

        async def work(connection: AsyncConnection) -> None:
            if (await connection.execute(change)).rowcount == 0:
                raise BoxUnknown(name)
            await forget(connection)

        await self._engines.write(work)

    # --- reports -------------------------------------------------------------------------------------------------

    async def save_report(self, box: str, report: Report, *, at: str) -> None:
        """Put a report in place of the last one. It is durable, and seen by every process, when this returns.

        `at` is when it was taken, as the box is told; it comes back as it is.

        Raises:
            StoreUnsure: it may be there all the same; then none is in force here until the next one.
            StoreUnavailable: also where another one was stored since this began, so that none replaces a later one.
        """
        doubts, row = self._doubts.of(box), report_row(report, at)
        # Its version alone, so that a report that is damaged is replaced.
        before = await self._all(select(REPORTS.c.version).where(REPORTS.c.box == box))
        found = before[0].version if before else None
        try:
            kept = await self._engines.write(lambda connection: replace(connection, self._insert, box, row, found))
            # Who reads has nothing of it in memory yet, so this finds where what is stored is damaged.
            if kept and await self._stored(box) is None:
                raise StoreUnsure("what was stored is not there")
        except StoreUnsure:
            self._doubts.add(box, str(row["version"]))
            raise
        if not kept:
            raise StoreUnavailable("another report of the box was stored meanwhile")
        self._doubts.end(box, doubts)

    async def _stored(self, box: str) -> Row[Any] | None:
        try:
            return await self._first(REPORTS, REPORTS.c.box == box)
        except StoreUnavailable as unavailable:
            raise StoreUnsure(str(unavailable)) from None

    async def report_of(self, box: str) -> StoredReport | None:
        """The last report. None: there is none, or what is stored is damaged or in doubt; then nothing is allowed."""
        found = await self._again(self._reports_of, box)
        return found[0] if found and not self._doubts.has(box, found[0].version) else None

    async def _reports_of(self, box: str) -> tuple[StoredReport, ...]:
        found = await self._first(REPORTS, REPORTS.c.box == box)
        report = report_of(found) if found is not None else None
        return () if report is None else (report,)

    # --- visitor grants ------------------------------------------------------------------------------------------

    async def issue_grant(self, box: str, *, principal: str, credential: str, ttl: float, now: float) -> IssuedGrant:
        """Make a grant for `box` that ends in `ttl` seconds. `credential` is a reference, `env:NAME` or `file:PATH`.

        Raises:
            ValueError: the credential is another kind of reference: what stands in a database starts no command.
        """
        if not credential.startswith(_CREDENTIALS):
            raise ValueError("a visitor's credential is named by `env:` or `file:`")
        value, expires = new_grant(), now + ttl
        row = {
            "digest": digest(value.encode()),
            "box": box,
            "principal": principal,
            "credential": credential,
            "issued": stored(now),
            "expires": stored(expires),
        }

        async def work(connection: AsyncConnection) -> int:
            await connection.execute(delete(GRANTS).where(GRANTS.c.expires < stored(now - _KEEP_GRANTS)))
            return int(await connection.scalar(self._insert(GRANTS).values(**row).returning(GRANTS.c.id)))

        return IssuedGrant(id=await self._engines.write(work), value=value, expires=expires)

    async def grant_of(self, value: bytes, box: str, *, now: float) -> VisitorGrant | None:
        """The live grant that `value` is, if it was issued for `box`."""
        wanted = digest(value)
        found = await self._first(
            GRANTS,
            GRANTS.c.digest == wanted,
            GRANTS.c.box == box,
            GRANTS.c.expires > stored(now),
            GRANTS.c.revoked.is_(None),
        )
        if found is None or not hmac.compare_digest(found.digest, wanted):
            return None
        return grant_of(found) if found.credential.startswith(_CREDENTIALS) else None

    async def list_grants(self, box: str | None = None) -> tuple[VisitorGrant, ...]:
        """The grants, of one box or of all, oldest first; those that ended a month ago or earlier may be gone."""
        wanted = select(GRANTS).order_by(GRANTS.c.id)
        if box is not None:
            wanted = wanted.where(named(GRANTS.c.box, box))
        return tuple(grant_of(row) for row in await self._all(wanted))

    async def revoke(
        self, *, now: float, number: int | None = None, box: str | None = None, principal: str | None = None
    ) -> tuple[VisitorGrant, ...]:
        """End the live grants that have this number, box and principal, and return them.

        Raises:
            ValueError: neither is given: that would end all of them.
        """
        given = ((GRANTS.c.id, number), (GRANTS.c.principal, principal))
        wanted = [column == value for column, value in given if value is not None]
        wanted += [named(GRANTS.c.box, box)] if box is not None else []
        if not wanted:
            raise ValueError("which grants?")
        live = (GRANTS.c.revoked.is_(None), GRANTS.c.expires > stored(now))
        change = update(GRANTS).where(*wanted, *live).values(revoked=stored(now)).returning(GRANTS)

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            rows: Sequence[Row[Any]] = (await connection.execute(change)).all()
            return rows

        ended = [grant_of(row) for row in await self._engines.write(work)]
        return tuple(sorted(ended, key=lambda grant: grant.id))

    # --- what a box owns -----------------------------------------------------------------------------------------

    async def owns(self, box: str, kind: Kind, identifier: str) -> bool:
        """Whether the box has learned this id. One that cannot be an id is nobody's."""
        if not is_id(identifier):
            return False
        own = (OWNED.c.box == box, OWNED.c.kind == kind.value, OWNED.c.id == identifier)
        return await self._first(OWNED, *own) is not None

    async def learn(self, box: str, kind: Kind, identifier: str) -> bool:
        """Remember that the box owns this id; also when it is known already. Of several at the same time, one does.

        False: it is another box's, learned or given, or it cannot be an id.
        """
        if not is_id(identifier):
            return False
        return await self._engines.write(lambda connection: learn(connection, self._insert, box, kind, identifier))

    async def ready(self, box: str) -> None:
        """Show that the box can learn something now: a change to the same table is made durable, and leaves nothing."""
        await self._engines.write(lambda connection: rehearse(connection, self._insert, box))

    async def owners(self, identifiers: frozenset[str]) -> tuple[Holding, ...]:
        """Which boxes own these ids, of whatever kind."""
        return await self._engines.read(lambda connection: owners(connection, identifiers))

    async def owned(self, box: str, kind: Kind) -> frozenset[str]:
        """All ids of one kind that the box has learned."""
        wanted = select(OWNED.c.id).where(OWNED.c.box == box, OWNED.c.kind == kind.value)
        return frozenset(row.id for row in await self._all(wanted))

    async def _first(self, table: Table, *where: ColumnElement[bool]) -> Row[Any] | None:
        found = await self._all(select(table).where(*where).limit(1))
        return found[0] if found else None

    async def _again[A: Hashable, T](self, find: Callable[[A], Awaitable[tuple[T, ...]]], wanted: A) -> tuple[T, ...]:
        """What `find` finds, without asking where nobody has committed anything since it was asked last."""
        version, asked = await self._engines.version(), (find.__name__, wanted)
        found = self._recent.get(version, asked)
        if found is None:
            found = await find(wanted)
            self._recent.keep(version, asked, found)
        return found

    async def _all(self, wanted: Select[Any]) -> tuple[Row[Any], ...]:
        async def work(connection: AsyncConnection) -> tuple[Row[Any], ...]:
            return tuple((await connection.execute(wanted)).all())

        return await self._engines.read(work)
