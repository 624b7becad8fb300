"""Processor with its own thread and event loop, which read and write the sockets.

Kafka: a network thread (``num.network.threads``).  Complete requests go to the core loop through
the request channel, and the responses come back, many per wakeup.

Owner: the core loop, except for the methods that run on the thread.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from odradek.broker.network.connection import Connection
from odradek.broker.network.processor import Processor, ProcessorLimits
from odradek.broker.network.purgatory import RequestOutcome
from odradek.broker.network.request_channel import RequestChannel
from odradek.broker.request import RequestContext


class ProcessorThread:
    """A processor as the core loop uses it."""

    def __init__(
        self,
        channel: RequestChannel,
        *,
        on_closed: Callable[[RequestContext], None],
        limits: ProcessorLimits,
        loop: asyncio.AbstractEventLoop,
        name: str,
    ) -> None:
        """``loop`` is a new event loop for the thread; ``on_closed`` is called on the core loop."""
        self._core_loop = asyncio.get_running_loop()
        self._on_closed = on_closed
        self._channel = channel
        self._loop = loop
        self._response_queue: deque[tuple[str, RequestOutcome]] = deque()
        self._is_wakeup_scheduled = False
        self._processor = Processor(
            submit=partial(channel.enqueue, self),
            watch=_reject_watch,
            on_closed=self._post_closed,
            limits=limits,
            loop=loop,
        )
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._processor)

    def accept(self, accepted_socket: socket.socket, context: RequestContext) -> None:
        self._loop.call_soon_threadsafe(self._processor.accept, accepted_socket, context)

    def connections(self) -> list[Connection]:
        return self._processor.connections()

    def close(self, connection_id: str, reason: str) -> None:
        self._loop.call_soon_threadsafe(self._processor.close, connection_id, reason)

    async def drain(self) -> None:
        draining = asyncio.run_coroutine_threadsafe(self._processor.drain(), self._loop)
        await asyncio.wrap_future(draining)

    def close_all(self) -> None:
        """Close all connections; return when the thread has ended."""
        self._loop.call_soon_threadsafe(self._shut_down)
        self._thread.join()

    def enqueue_response(self, connection_id: str, outcome: RequestOutcome) -> None:
        self._response_queue.append((connection_id, outcome))
        if not self._is_wakeup_scheduled:
            self._is_wakeup_scheduled = True
            self._loop.call_soon_threadsafe(self._process_responses)

    def enqueue_resume(self, connection_id: str) -> None:
        self._loop.call_soon_threadsafe(self._resume, connection_id)

    # These methods run on the thread.

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _post_closed(self, context: RequestContext) -> None:
        self._core_loop.call_soon_threadsafe(self._on_closed, context)

    def _process_responses(self) -> None:
        self._is_wakeup_scheduled = False
        while self._response_queue:
            connection_id, outcome = self._response_queue.popleft()
            self._processor.deliver(connection_id, outcome)

    def _resume(self, connection_id: str) -> None:
        self._processor.resume(connection_id)
        # If the connection is closed or still blocked, the channel resumes the next one.
        self._channel.wakeup()

    def _shut_down(self) -> None:
        self._processor.close_all()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        # Stop only after the cancelled tasks have handled their cancellation.
        self._loop.call_soon(self._loop.call_soon, self._loop.stop)


def _reject_watch(response: object, context: RequestContext, deliver: object) -> None:
    """Reject the call: only the core loop waits for responses."""
    raise AssertionError(context)
