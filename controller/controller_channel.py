"""One request queue per broker, sent strictly in order and retried until the broker responds.

Kafka: ControllerChannelManager and RequestSendThread.

A request is retried until the broker responds or its channel is closed.  A channel is closed when
its broker is gone or has a new epoch.  A broker that missed a request would keep outdated state
permanently.  Only one request per broker is in flight, so no broker receives older state after
newer state.  The channel passes each response together with its request to the controller, on the
event loop.

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

#: As in Kafka's RequestSendThread.
RETRY_BACKOFF_MS = 100

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse

log = logging.getLogger("kafka.controller")


class BrokerConnection(Protocol):
    """A connection to one broker that reconnects when it is lost."""

    async def send(self, request: ControlRequest, *, version: int) -> ControlResponse:
        """Raises OSError, also on a timeout, or DecodeError; the caller may then retry."""

    def close(self) -> None: ...


class StartTask(Protocol):
    """Starts a supervised task, as ``asyncio.TaskGroup.create_task`` does."""

    def __call__(self, work: Coroutine[Any, Any, None], /, *, name: str) -> asyncio.Task[None]: ...


@dataclass(frozen=True, slots=True)
class BrokerResponse:
    """The response of a broker, with its request and the broker epoch of the channel."""

    broker_id: int
    broker_epoch: int
    request: ControlRequest
    response: ControlResponse


@dataclass(frozen=True, slots=True)
class ChannelEnvironment:
    """The connections, tasks, clock and response callback that channels use."""

    connect: Callable[[Broker], BrokerConnection]
    start_task: StartTask
    sleep: Callable[[float], Awaitable[None]]
    on_response: Callable[[BrokerResponse], None]


class ControllerChannelManager:
    """One channel for every registered broker."""

    def __init__(self, environment: ChannelEnvironment) -> None:
        self._environment = environment
        self._channels: dict[int, _BrokerChannel] = {}

    def __contains__(self, broker_id: object) -> bool:
        return broker_id in self._channels

    @property
    def queue_size(self) -> int:
        """The number of requests to all brokers that have no response yet."""
        return sum(channel.queue_size for channel in self._channels.values())

    def add_broker(self, broker: Broker) -> None:
        """Open a channel, unless one exists for this epoch.  A new epoch starts a new queue."""
        channel = self._channels.get(broker.id)
        if channel is not None and channel.broker.epoch == broker.epoch:
            return
        self.remove_broker(broker.id)
        self._channels[broker.id] = _BrokerChannel(broker, self._environment)

    def remove_broker(self, broker_id: int) -> None:
        """Drop the queued requests; responses that arrive later are ignored."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def close(self) -> None:
        for broker in [*self._channels]:
            self.remove_broker(broker)

    def send(self, broker_id: int, request: ControlRequest, *, version: int) -> None:
        channel = self._channels.get(broker_id)
        if channel is None:
            log.warning(
                "Not sending request to broker %d, since it is offline: %s",
                broker_id,
                type(request).__name__,
            )
        else:
            channel.put(request, version)


class _BrokerChannel:
    """The queue of one broker in one epoch, and the task that sends its requests."""

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
                # The response may arrive in the same loop iteration in which the channel closes.
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
                log.info(
                    "Controller request to broker %d succeeded at attempt %d",
                    self.broker.id,
                    error_count + 1,
                )
            return response

    def _log_send_error(self, request: ControlRequest, error: OSError | DecodeError) -> None:
        name = type(request).__name__
        log.warning(
            "Controller fails to send request to broker %d: %s. Retrying until it responds: %r",
            self.broker.id,
            name,
            error,
        )
