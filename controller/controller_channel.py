"""The way from the controller to each broker: one queue, strictly in order, until answered.

A request is sent again and again until the broker answers or its channel is closed, because it has
gone or come back with a new epoch: a broker that missed one would act on an outdated picture for
ever.  Only one is under way at a time, so no broker sees an older picture after a newer one.  What
the brokers answer is handed to the controller, on the loop, together with what they were asked.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.controller.controller_context import Broker
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.api.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.protocol.errors import DecodeError

#: As Kafka waits before it sends again.
RETRY_BACKOFF_MS = 100

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse

log = logging.getLogger(__name__)


class BrokerConnection(Protocol):
    """A connection to one broker, made again when it was lost."""

    async def send(self, request: ControlRequest, *, version: int) -> ControlResponse:
        """Raises OSError, also when time ran out, or DecodeError; then it may be tried again."""

    def close(self) -> None: ...


class StartTask(Protocol):
    """Starts a task that somebody watches, as ``asyncio.TaskGroup.create_task`` does."""

    def __call__(self, work: Coroutine[Any, Any, None], /, *, name: str) -> asyncio.Task[None]: ...


@dataclass(frozen=True, slots=True)
class BrokerResponse:
    """What a broker, in the epoch in which it was asked, answered."""

    broker_id: int
    broker_epoch: int
    request: ControlRequest
    response: ControlResponse


@dataclass(frozen=True, slots=True)
class ChannelEnvironment:
    """What channels need of the world around them."""

    connect: Callable[[Broker], BrokerConnection]
    start_task: StartTask
    sleep: Callable[[float], Awaitable[None]]
    on_response: Callable[[BrokerResponse], None]


class ControllerChannelManager:
    """A channel for every broker that is registered."""

    def __init__(self, environment: ChannelEnvironment) -> None:
        self._environment = environment
        self._channels: dict[int, _BrokerChannel] = {}

    def __contains__(self, broker_id: object) -> bool:
        return broker_id in self._channels

    @property
    def queue_size(self) -> int:
        """Requests that are not answered yet, to all brokers."""
        return sum(channel.queue_size for channel in self._channels.values())

    def add_broker(self, broker: Broker) -> None:
        """Nothing if it is there already; in a new epoch it begins with an empty queue."""
        channel = self._channels.get(broker.id)
        if channel is not None and channel.broker.epoch == broker.epoch:
            return
        self.remove_broker(broker.id)
        self._channels[broker.id] = _BrokerChannel(broker, self._environment)

    def remove_broker(self, broker_id: int) -> None:
        """Forget what it was not told yet; nothing that it answers comes back any more."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def close(self) -> None:
        for broker in [*self._channels]:
            self.remove_broker(broker)

    def send(self, broker_id: int, request: ControlRequest, *, version: int) -> None:
        channel = self._channels.get(broker_id)
        if channel is None:
            log.warning("Broker %d is not there to be sent a %s", broker_id, type(request).__name__)
        else:
            channel.put(request, version)


class _BrokerChannel:
    """The queue of one broker in one epoch, and the task that empties it."""

    def __init__(self, broker: Broker, environment: ChannelEnvironment) -> None:
        self.broker = broker
        self._environment = environment
        self._connection = environment.connect(broker)
        self._queue: deque[tuple[ControlRequest, int]] = deque()
        self._has_requests = asyncio.Event()
        self._is_closed = False
        self._task = environment.start_task(
            self._send_requests(), name=f"controller-to-broker-{broker.id}"
        )

    @property
    def queue_size(self) -> int:
        return len(self._queue)

    def put(self, request: ControlRequest, version: int) -> None:
        self._queue.append((request, version))
        self._has_requests.set()

    def close(self) -> None:
        self._is_closed = True
        self._queue.clear()
        self._task.cancel()
        self._connection.close()

    async def _send_requests(self) -> None:
        while not self._is_closed:
            await self._has_requests.wait()
            while self._queue:
                request, version = self._queue[0]
                response = await self._send_until_answered(request, version)
                # Its answer may have come in the same turn of the loop as the end of the channel.
                if self._is_closed:
                    return
                self._queue.popleft()
                epoch = self.broker.epoch
                self._environment.on_response(
                    BrokerResponse(self.broker.id, epoch, request, response)
                )
            self._has_requests.clear()

    async def _send_until_answered(self, request: ControlRequest, version: int) -> ControlResponse:
        error_count = 0
        while True:
            try:
                response = await self._connection.send(request, version=version)
            except (OSError, DecodeError) as error:
                error_count += 1
                if error_count == 1:
                    self._log_send_error(request, error)
                await self._environment.sleep(RETRY_BACKOFF_MS / 1000)
                continue
            if error_count:
                log.info("Broker %d answers again, at attempt %d", self.broker.id, error_count + 1)
            return response

    def _log_send_error(self, request: ControlRequest, error: OSError | DecodeError) -> None:
        name = type(request).__name__
        log.warning(
            "Broker %d does not answer a %s, which is sent again until it does: %r",
            self.broker.id,
            name,
            error,
        )
