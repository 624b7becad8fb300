"""The network between the brokers of a cluster, and from each of them to ZooKeeper, to be cut.

    with Network(zookeeper.address, brokers=3) as network:
        with Cluster(tmp_path, zookeeper, network=network).running():
            network.isolate(0)    # from its peers and from ZooKeeper, not from clients
            network.mend()

A cut is a cable that is pulled: nobody is told.  What was on its way, and what is sent meanwhile,
waits as in the buffers of TCP, and arrives when the cable is back; a connection that is made in
between comes about only then.  What is on its way can be late, too.

Brokers tell each other of addresses that are ours.  Who connects to them is known by the client id
of the first request.

Owner: the thread of the test; the wires have an event loop on a thread of their own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from threading import Thread
from typing import Any, NamedTuple, Self

from tests.support.free_ports import free_port
from tests.support.links import ZOOKEEPER, Links, Pair

LOOPBACK = "127.0.0.1"
PEERS = "PEERS"  # the listener of the brokers
CHUNK_BYTES = 65_536
#: So many pieces may be on their way.
PIECES_MAX = 256
STEER_TIMEOUT_S = 10
#: Where a request's client id is, behind size, key, version and correlation id.
CLIENT_ID_AT = 12
CLIENT_OF_BROKER = re.compile(rb"(?:broker-)?(\d+)(?:-fetcher)?")

#: When each is due, and what it is.
Pieces = asyncio.Queue[tuple[float, bytes]]


class Ends(NamedTuple):
    """Of a wire: a broker, and another or ZOOKEEPER."""

    source: int
    target: int

    @property
    def pair(self) -> Pair:
        return frozenset(self)


class Network(Links):
    """Whole until something is cut."""

    def __init__(self, zookeeper: str, *, brokers: int) -> None:
        """``zookeeper`` is host:port."""
        super().__init__(brokers=brokers)
        self._zookeeper = zookeeper
        self._listening = {number: free_port() for number in self._brokers}
        self._advertised = {number: free_port() for number in self._brokers}
        self._to_zookeeper = {number: free_port() for number in self._brokers}
        self._strands: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._has_changed = asyncio.Event()
        self._thread = Thread(target=self._loop.run_forever, name="network")

    def settings_of(self, broker: int, *, port: int, branch: str) -> tuple[str, ...]:
        listening, advertised = self._listening[broker], self._advertised[broker]
        return (
            f"zookeeper.connect={LOOPBACK}:{self._to_zookeeper[broker]}/{branch}",
            f"listeners=PLAINTEXT://{LOOPBACK}:{port},{PEERS}://{LOOPBACK}:{listening}",
            f"advertised.listeners=PLAINTEXT://{LOOPBACK}:{port},{PEERS}://{LOOPBACK}:{advertised}",
            f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,{PEERS}:PLAINTEXT",
            f"inter.broker.listener.name={PEERS}",
        )

    def _steer(self, change: Callable[[], object]) -> None:
        async def steered() -> None:
            change()
            changed, self._has_changed = self._has_changed, asyncio.Event()
            changed.set()

        self._run(steered())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(STEER_TIMEOUT_S)

    # Wires

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *failure: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STEER_TIMEOUT_S)
        self._loop.close()

    async def _listen(self) -> None:
        self._servers = []
        for number in self._brokers:
            to_broker = f"{LOOPBACK}:{self._listening[number]}"
            for port, accept in (
                (self._advertised[number], self._from_a_broker(number, to_broker)),
                (self._to_zookeeper[number], self._to_the_zookeeper(number)),
            ):
                self._servers.append(await asyncio.start_server(accept, LOOPBACK, port))

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for strand in self._strands:
            strand.cancel()
        await asyncio.gather(*self._strands, return_exceptions=True)
        await asyncio.sleep(0)  # for the sockets to be closed

    def _from_a_broker(self, target: int, address: str) -> Callable[..., Awaitable[None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.IncompleteReadError):
                size = await reader.readexactly(4)
                first = size + await reader.readexactly(int.from_bytes(size))
                ends = Ends(_broker_in(first), target)
                await self._serve(ends, address, reader, writer, first)

        return self._noted(accept)

    def _to_the_zookeeper(self, source: int) -> Callable[..., Awaitable[None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                await self._serve(Ends(source, ZOOKEEPER), self._zookeeper, reader, writer, b"")

        return self._noted(accept)

    def _noted(self, accept: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._strands.add(task)
            try:
                with suppress(asyncio.CancelledError):  # the network is closed
                    await accept(reader, writer)
            finally:
                self._strands.discard(task)
                writer.transport.abort()

        return noted

    async def _serve(
        self,
        ends: Ends,
        address: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        first: bytes,
    ) -> None:
        await self._wait_until_whole(ends)
        if reader.at_eof():
            return  # given up before it came about
        host, _, port = address.rpartition(":")
        answers, requests = await asyncio.open_connection(host, int(port))
        requests.write(first)
        try:
            async with asyncio.TaskGroup() as tasks:
                for source, sink in ((reader, requests), (answers, writer)):
                    pieces: Pieces = asyncio.Queue(PIECES_MAX)
                    tasks.create_task(self._collect(ends, source, pieces))
                    tasks.create_task(self._deliver(ends, pieces, sink, (requests, writer)))
        finally:
            requests.transport.abort()

    async def _collect(self, ends: Ends, source: asyncio.StreamReader, pieces: Pieces) -> None:
        """The last one is empty."""
        piece = b"-"
        while piece:
            try:
                piece = await source.read(CHUNK_BYTES)
            except OSError:
                piece = b""
            await pieces.put((self._loop.time() + self._late_s(ends.pair), piece))

    async def _deliver(
        self,
        ends: Ends,
        pieces: Pieces,
        sink: asyncio.StreamWriter,
        both: Iterable[asyncio.StreamWriter],
    ) -> None:
        piece = b"-"
        while piece:
            due, piece = await pieces.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            await self._wait_until_whole(ends)
            try:
                sink.write(piece)
                await sink.drain()
            except OSError:
                break  # nobody is there any more
        for writer in both:
            writer.transport.abort()

    async def _wait_until_whole(self, ends: Ends) -> None:
        while ends.pair in self._cut:
            await self._has_changed.wait()


def _broker_in(request: bytes) -> int:
    size = int.from_bytes(request[CLIENT_ID_AT : CLIENT_ID_AT + 2], signed=True)
    client = request[CLIENT_ID_AT + 2 : CLIENT_ID_AT + 2 + size]
    found = CLIENT_OF_BROKER.fullmatch(client)
    assert found is not None, f"{client!r} is no broker's client id"
    return int(found[1])
