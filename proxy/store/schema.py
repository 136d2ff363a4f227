"""The tables, as the store's statements name them, and the steps that made them.

A step that has been released is never changed: a new version is a new step. Times are milliseconds since 1970, digests
are SHA-256 in hex, lists and reports are JSON in ASCII (so that a NUL in a text is no NUL in the database).
"""

from typing import Final

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text

METADATA: Final = MetaData()

BOXES: Final = Table(
    "boxes",
    METADATA,
    Column("id", BigInteger, primary_key=True),
    Column("name", Text, nullable=False),
    Column("token_digest", Text),
    Column("previous_digest", Text),
    Column("previous_until", BigInteger),
    Column("endpoints", Text, nullable=False),
    Column("tunnels", Integer, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("rotated", BigInteger),
    Column("removed", BigInteger),
)
REPORTS: Final = Table(
    "reports",
    METADATA,
    Column("box", Text, primary_key=True),
    Column("declaration", Text, nullable=False),
    Column("listing", Text),
    Column("spend", Text),
    Column("at", Text, nullable=False),
    Column("version", Text, nullable=False),
)
GRANTS: Final = Table(
    "visitor_grants",
    METADATA,
    Column("id", BigInteger, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("box", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("credential", Text, nullable=False),
    Column("issued", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("revoked", BigInteger),
)
OWNED: Final = Table(
    "owned",
    METADATA,
    Column("box", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("learned", Integer, nullable=False),
)
VERSIONS: Final = Table(
    "schema_version",
    METADATA,
    Column("version", Integer, primary_key=True),
    Column("applied", BigInteger, nullable=False),
)

IDENTITY: Final = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgresql": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}
"""A row number that is never used again, in each database's words; `{identity}` in a step stands for it."""

ROW: Final = {"sqlite": "rowid", "postgresql": "ctid"}
"""What tells which of two rows that were never changed came first; `{row}` in a step stands for it."""

FIRST: Final = "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, applied BIGINT NOT NULL)"
STEPS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE TABLE boxes (id {identity}, name TEXT NOT NULL, token_digest TEXT UNIQUE, previous_digest TEXT,"
        " previous_until BIGINT, endpoints TEXT NOT NULL, tunnels INTEGER NOT NULL, created BIGINT NOT NULL,"
        " rotated BIGINT, removed BIGINT)",
        "CREATE UNIQUE INDEX boxes_name ON boxes (name) WHERE removed IS NULL",
        "CREATE INDEX boxes_previous ON boxes (previous_digest)",
        "CREATE TABLE reports (box TEXT PRIMARY KEY, declaration TEXT NOT NULL, listing TEXT, spend TEXT,"
        " at TEXT NOT NULL)",
        "CREATE TABLE visitor_grants (id {identity}, digest TEXT NOT NULL UNIQUE, box TEXT NOT NULL,"
        " principal TEXT NOT NULL, credential TEXT NOT NULL, issued BIGINT NOT NULL, expires BIGINT NOT NULL,"
        " revoked BIGINT)",
        "CREATE TABLE owned (box TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (box, kind, id))",
    ),
    (  # what is learned is one box's; of what several had learned, the first keeps it
        "CREATE INDEX owned_id ON owned (id, kind)",
        "DELETE FROM owned WHERE EXISTS (SELECT 1 FROM owned AS o"
        " WHERE o.id = owned.id AND o.kind = owned.kind AND o.{row} < owned.{row})",
        "ALTER TABLE owned ADD COLUMN learned INTEGER NOT NULL DEFAULT 1",
        "CREATE UNIQUE INDEX owned_learned ON owned (id, kind) WHERE learned = 1",
    ),
    (  # an added box has what it has by a key that no other box is given, and not by its name
        # first, since it locks the table: a process that reports meanwhile has a row of it and waits for no other
        "ALTER TABLE reports ADD COLUMN version TEXT NOT NULL DEFAULT ''",
        *(
            f"UPDATE {table} SET box = box || '#' || (SELECT boxes.id FROM boxes"  # noqa: S608 - ours
            f" WHERE boxes.name = {table}.box AND boxes.removed IS NULL)"
            f" WHERE EXISTS (SELECT 1 FROM boxes WHERE boxes.name = {table}.box AND boxes.removed IS NULL)"
            for table in ("reports", "visitor_grants", "owned")
        ),
    ),
)
"""Each version's statements, the first version's first."""
