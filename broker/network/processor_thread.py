"""A processor on a thread and a loop of its own: sockets are read and written here.

Whole requests go to the core loop, and their answers come back, many at one waking.

Owner: the core loop, but for what runs on the thread itself.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from odradek.broker.call import Peer
from odradek.broker.network.connection import Connection
from odradek.broker.network.pending_answers import Outcome
from odradek.broker.network.processor import Limits, Processor
from odradek.broker.network.request_channel import RequestChannel


class ProcessorThread:
    """A processor as the core loop sees it."""

    def __init__(
        self,
        channel: RequestChannel,
        *,
        ended: Callable[[Peer], None],
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        name: str,
    ) -> None:
        """``loop`` is a new one, for the thread; ``ended`` is called on the core loop."""
        self._core = asyncio.get_running_loop()
        self._ended = ended
        self._channel = channel
        self._loop = loop
        self._answers: deque[tuple[str, Outcome]] = deque()
        self._is_awake = False
        self._processor = Processor(
            ask=partial(channel.hand_over, self),
            wait=_never_wait,
            ended=self._ended_soon,
            limits=limits,
            loop=loop,
        )
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._processor)

    def adopt(self, accepted: socket.socket, peer: Peer) -> None:
        self._loop.call_soon_threadsafe(self._processor.adopt, accepted, peer)

    def connections(self) -> list[Connection]:
        return self._processor.connections()

    def close(self, connection_id: str, reason: str) -> None:
        self._loop.call_soon_threadsafe(self._processor.close, connection_id, reason)

    async def drain(self) -> None:
        draining = asyncio.run_coroutine_threadsafe(self._processor.drain(), self._loop)
        await asyncio.wrap_future(draining)

    def close_all(self) -> None:
        """Returns when the thread has ended."""
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join()

    def deliver_soon(self, connection_id: str, outcome: Outcome) -> None:
        self._answers.append((connection_id, outcome))
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon_threadsafe(self._deliver)

    def resume_soon(self, connection_id: str) -> None:
        self._loop.call_soon_threadsafe(self._resume, connection_id)

    # On the thread.

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _ended_soon(self, peer: Peer) -> None:
        self._core.call_soon_threadsafe(self._ended, peer)

    def _deliver(self) -> None:
        self._is_awake = False
        while self._answers:
            connection_id, outcome = self._answers.popleft()
            self._processor.deliver(connection_id, outcome)

    def _resume(self, connection_id: str) -> None:
        self._processor.resume(connection_id)
        # One that has gone, or cannot go on, leaves its place to the next.
        self._channel.wake()

    def _end(self) -> None:
        self._processor.close_all()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        # After what was cancelled has heard of it.
        self._loop.call_soon(self._loop.call_soon, self._loop.stop)


def _never_wait(answer: object, peer: Peer, deliver: object) -> None:
    """The core loop waits for answers."""
    raise AssertionError(peer)
