"""What this broker asks of the controller, whichever broker that is at the moment.

A controller that is paused, or cut off, does not answer for a long time.  But it is the controller
no more as soon as its session is over, and whoever is one by then is asked instead.  (Kafka waits
until ``controller.socket.timeout.ms`` has passed.)

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import BrokerClients
from odradek.protocol.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.api.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import DecodeError, KafkaError, NotController, RequestTimedOut
from odradek.protocol.schema import Message
from odradek.protocol.types import TopicPartition

CONTROLLED_SHUTDOWN_VERSION = 3
ALLOCATE_PRODUCER_IDS_VERSION = 0
#: How often it is looked whether somebody else is the controller, while an answer is awaited.
LOOK_EVERY_S = 0.1


class Block(NamedTuple):
    """Of producer ids; both ends are in it."""

    block_start: int
    block_end: int


class ControllerClient:
    """Raises KafkaError where the controller refuses, does not answer, or is not known."""

    def __init__(
        self,
        itself: Node,
        *,
        controller_id: Callable[[], int],
        nodes: Callable[[], Mapping[int, Node]],
        clients: BrokerClients,
        broker_epoch: Callable[[], int],
    ) -> None:
        """``itself`` is known before any picture of the cluster has come."""
        self._itself = itself
        self._controller_id = controller_id
        self._nodes = nodes
        self._clients = clients
        self._broker_epoch = broker_epoch

    @property
    def broker_id(self) -> int:
        return self._itself.id

    @property
    def broker_epoch(self) -> int:
        return self._broker_epoch()

    def close(self) -> None:
        self._clients.close()

    async def send(self, request: Message, *, version: int) -> Message:
        controller_id = self._controller_id()
        node = self._itself
        if controller_id != node.id:
            found = self._nodes().get(controller_id)
            if found is None:
                raise NotController("nobody is known to be the controller")
            node = found
        office = asyncio.timeout(None)
        try:
            async with office:
                with self._leaving_with(office, node.id):
                    return await self._clients.to(node).send(request, version=version)
        except (OSError, DecodeError) as failure:
            if office.expired():
                raise NotController(f"broker {node.id} is the controller no more") from failure
            raise RequestTimedOut(f"controller {node.id} does not answer: {failure}") from failure

    @contextmanager
    def _leaving_with(self, office: asyncio.Timeout, controller_id: int) -> Iterator[None]:
        """``office`` ends with that of the controller."""
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []

        def look() -> None:
            if self._controller_id() != controller_id:
                office.reschedule(loop.time())
            else:
                timers[:] = [loop.call_later(LOOK_EVERY_S, look)]

        look()
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()

    async def shut_down(self) -> list[TopicPartition]:
        """What this broker, which is about to stop, still leads."""
        request = ControlledShutdownRequest(
            broker_id=self._itself.id, broker_epoch=self._broker_epoch()
        )
        response = await self.send(request, version=CONTROLLED_SHUTDOWN_VERSION)
        assert isinstance(response, ControlledShutdownResponse), response
        _check(response.error_code)
        return [
            TopicPartition(each.topic_name, each.partition_index)
            for each in response.remaining_partitions
        ]

    async def allocate_producer_ids(self) -> Block:
        request = AllocateProducerIdsRequest(
            broker_id=self._itself.id, broker_epoch=self._broker_epoch()
        )
        response = await self.send(request, version=ALLOCATE_PRODUCER_IDS_VERSION)
        assert isinstance(response, AllocateProducerIdsResponse), response
        _check(response.error_code)
        start = response.producer_id_start
        return Block(start, start + response.producer_id_len - 1)


def _check(code: int) -> None:
    if code:
        raise KafkaError(error=ErrorCode.of(code))
