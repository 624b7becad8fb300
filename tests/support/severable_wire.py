"""A wire to a server that a test can cut, and mend again, at the same address.

It counts the requests that went through: frames that begin with their length, as ZooKeeper's do.

Owner: the event loop of the test; of a ``SteeredWire``, the thread of the test.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from threading import Thread
from typing import Any, Self

from tests.support.free_ports import free_port
from tests.support.loops import at_end

LOOPBACK = "127.0.0.1"
CHUNK_BYTES = 65_536
STEER_TIMEOUT_S = 10


class SeverableWire:
    def __init__(self, target: str) -> None:
        self.address = f"{LOOPBACK}:{free_port()}"
        self.requests = 0
        self._target = target
        self._counted = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._strands: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}

    async def mend(self) -> None:
        host, _, port = self.address.partition(":")
        self._server = await asyncio.start_server(self._serve, host, int(port))

    async def cut(self) -> None:
        """What is on its way is lost, and nobody can connect."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for ends in self._strands.values():
            _abort(*ends)
        await asyncio.gather(*self._strands)

    async def wait_for_requests(self, count: int) -> None:
        while self.requests < count:
            self._counted.clear()
            await self._counted.wait()

    async def _serve(self, requests: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ends = self._strands[task] = [client]
        host, _, port = self._target.partition(":")
        try:
            with suppress(OSError):
                answers, server = await asyncio.open_connection(host, int(port))
                ends.append(server)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_requests(requests, ends))
                    both.create_task(_pass_answers(answers, ends))
        finally:
            _abort(*ends)
            del self._strands[task]

    async def _pass_requests(
        self, requests: asyncio.StreamReader, ends: list[asyncio.StreamWriter]
    ) -> None:
        _, server = ends
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await requests.readexactly(4)
                server.write(size + await requests.readexactly(int.from_bytes(size)))
                self.requests += 1
                self._counted.set()
        _abort(*ends)


async def _pass_answers(answers: asyncio.StreamReader, ends: list[asyncio.StreamWriter]) -> None:
    client, _ = ends
    with suppress(OSError):
        while read := await answers.read(CHUNK_BYTES):
            client.write(read)
    _abort(*ends)


def _abort(*ends: asyncio.StreamWriter) -> None:
    for end in ends:
        end.transport.abort()


async def severable_wire(target: str) -> SeverableWire:
    """To the server at this address, in order; cut when the test has ended."""
    wire = SeverableWire(target)
    at_end(wire.cut)
    await wire.mend()
    return wire


class SteeredWire:
    """The same, on a loop and a thread of its own, for tests that have no loop; mended at first."""

    def __init__(self, target: str) -> None:
        self._wire = SeverableWire(target)
        self.address = self._wire.address
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="wire")

    def __enter__(self) -> Self:
        self._thread.start()
        self.mend()
        return self

    def __exit__(self, *failure: object) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def mend(self) -> None:
        self._run(self._wire.mend())

    def cut(self) -> None:
        self._run(self._wire.cut())

    def _run(self, steering: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(steering, self._loop).result(STEER_TIMEOUT_S)
