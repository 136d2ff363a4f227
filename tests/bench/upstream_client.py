"""CPU that the upstream client takes a request: microseconds of this process, the upstream in another.

    PYTHONPATH=.:tests python tests/bench/upstream_client.py [--requests N] [--body BYTES] [--tasks N] [--loop LOOP]

Prints requests a second and CPU microseconds a request for each round, then the median. Bounded: at most
`--requests` requests a round, five rounds.
"""

import argparse
import asyncio
import gc
import multiprocessing
import ssl
import statistics
import tempfile
import time
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import trustme

from grants.message import Origin, Outgoing
from proxy.upstream import Pool, Trust, UpstreamClient

ROUNDS = 5


class Answering(asyncio.Protocol):
    """Answers each request head with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(self._answer * data.count(b"\r\n\r\n"))


def serve(chain: str, size: int, pipe: Pipe) -> None:
    """Serve TLS on loopback until the parent ends this process."""

    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        fields = (
            b"Date: Mon, 01 Jan 2024 00:00:00 GMT",
            b"Content-Type: application/json; charset=utf-8",
            b"Cache-Control: private, max-age=60",
            b'ETag: "0123456789abcdef"',
            b"X-Request-Id: 0123456789abcdef",
            b"Vary: Accept, Authorization",
            b"Server: bench",
            b"Content-Length: %d" % size,
        )
        answer = b"HTTP/1.1 200 OK\r\n" + b"\r\n".join(fields) + b"\r\n\r\n" + b"x" * size
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Answering(answer), "127.0.0.1", 0, ssl=context)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def measure(port: int, bundle: bytes, requests: int, tasks: int, size: int) -> float:
    """One round; CPU microseconds a request."""
    pool = Pool()
    origin = Origin(scheme="https", host="127.0.0.1", port=port)
    client = UpstreamClient(pool, origin, Trust.only(bundle), consented=frozenset({("127.0.0.1", port)}))
    fields = ((b"Accept", b"application/json"), (b"Authorization", b"Bearer 0123456789abcdef0123456789abcdef"))
    request = Outgoing(origin=origin, method=b"GET", target=b"/repos/acme/widgets?state=open", fields=fields)

    async def some(count: int) -> None:
        for _ in range(count):
            response = await client.send(request, max_body=size, timeout=30)
            assert len(response.body) == size

    await asyncio.gather(*(some(20) for _ in range(tasks)))
    gc.collect()
    started, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(some(requests // tasks) for _ in range(tasks)))
    used, elapsed = time.process_time() - used, time.perf_counter() - started
    done = requests // tasks * tasks
    print(f"{done / elapsed:10,.0f} requests/s {used / done * 1e6:8.1f} CPU us/request, {pool.dialled} connections")
    await pool.close()
    return used / done * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="uvloop")
    arguments = parser.parse_args()
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    with tempfile.TemporaryDirectory() as folder:
        chain = Path(folder) / "chain.pem"
        certificate = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
        certificate.private_key_and_cert_chain_pem.write_to_path(str(chain))
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(target=serve, args=(str(chain), arguments.body, theirs), daemon=True)
        server.start()
        port = ours.recv()
    factory = None
    if arguments.loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    try:
        rounds = []
        for _ in range(ROUNDS):
            with asyncio.Runner(loop_factory=factory) as runner:
                bundle = authority.cert_pem.bytes()
                measured = measure(port, bundle, arguments.requests, arguments.tasks, arguments.body)
                rounds.append(runner.run(measured))
        print(f"median {statistics.median(rounds):.1f} CPU us/request ({arguments.loop}, {arguments.body} bytes)")
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
