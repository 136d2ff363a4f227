"""A connection to write to when none is idle: one that became free, or a new one."""

import asyncio

from .connection import Connection
from .dial import Resolver, dial
from .failures import timed_out
from .pool import Group, Pool


async def acquire(
    pool: Pool, group: Group, resolver: Resolver, *, connect_timeout: float, deadline: float
) -> Connection:
    """A connection of `group` that can be written to now.

    Waits for a place until `deadline` (the loop's time); a new connection gets `connect_timeout` seconds of that.

    Raises:
        UpstreamFailed: there is none; nothing is left open, no place taken.
    """
    while (connection := await pool.place(group, deadline)) is not None:
        if connection.quiet():
            return connection
        connection.abort()
    loop = asyncio.get_running_loop()
    now = loop.time()
    connection = Connection(loop)
    try:
        if now >= deadline:
            raise timed_out()
        await dial(
            group.origin,
            group.reach,
            group.trust,
            connection,
            resolver=resolver,
            deadline=min(deadline, now + connect_timeout),
        )
        pool.adopt(group, connection)
    except BaseException:
        pool.release(group)
        raise
    return connection
