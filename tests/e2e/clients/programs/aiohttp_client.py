"""METHOD URL [AUTHORIZATION]: with aiohttp, which reads the environment only when it is told to."""

import asyncio
import sys

import aiohttp

method, url, *authorization = sys.argv[1:]


async def main() -> None:
    async with (
        aiohttp.ClientSession(trust_env=True) as session,
        session.request(
            method,
            url,
            headers=dict.fromkeys(["Authorization"], authorization[0]) if authorization else {},
            json={"title": "world"} if method == "POST" else None,
        ) as answer,
    ):
        answer.raise_for_status()
        print(await answer.text())


asyncio.run(main())
