"""Sends requests of this broker to the active controller.  Kafka: NodeToControllerChannelManager.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.broker.metadata.metadata_snapshot import Node
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


class ProducerIdsBlock(NamedTuple):
    """A block of producer ids; both ends are inclusive."""

    block_start: int
    block_end: int


class ControllerClient:
    """Raises KafkaError if the controller is unknown, does not answer or rejects the request."""

    def __init__(
        self,
        local_node: Node,
        *,
        controller_id: Callable[[], int],
        nodes: Callable[[], Mapping[int, Node]],
        clients: BrokerClients,
        broker_epoch: Callable[[], int],
    ) -> None:
        """``local_node`` is known before the first metadata update arrives."""
        self._local_node = local_node
        self._controller_id = controller_id
        self._nodes = nodes
        self._clients = clients
        self._broker_epoch = broker_epoch

    @property
    def broker_id(self) -> int:
        return self._local_node.id

    @property
    def broker_epoch(self) -> int:
        return self._broker_epoch()

    def close(self) -> None:
        self._clients.close()

    def on_controller_change(self) -> None:
        """Close connections to the former controller: if it hangs, its responses never arrive."""
        self._clients.close_all_except(self._controller_id())

    async def send(self, request: Message, *, version: int) -> Message:
        controller_id = self._controller_id()
        node = self._local_node
        if controller_id != node.id:
            controller = self._nodes().get(controller_id)
            if controller is None:
                raise NotController("the active controller is not known")
            node = controller
        try:
            return await self._clients.client_for(node).send(request, version=version)
        except (OSError, DecodeError) as error:
            raise RequestTimedOut(f"controller {node.id} does not answer: {error}") from error

    async def controlled_shutdown(self) -> list[TopicPartition]:
        """Return the partitions that this broker, which is about to stop, still leads."""
        request = ControlledShutdownRequest(
            broker_id=self._local_node.id, broker_epoch=self._broker_epoch()
        )
        response = await self.send(request, version=CONTROLLED_SHUTDOWN_VERSION)
        assert isinstance(response, ControlledShutdownResponse), response
        _check_error_code(response.error_code)
        return [
            TopicPartition(each.topic_name, each.partition_index)
            for each in response.remaining_partitions
        ]

    async def allocate_producer_ids(self) -> ProducerIdsBlock:
        request = AllocateProducerIdsRequest(
            broker_id=self._local_node.id, broker_epoch=self._broker_epoch()
        )
        response = await self.send(request, version=ALLOCATE_PRODUCER_IDS_VERSION)
        assert isinstance(response, AllocateProducerIdsResponse), response
        _check_error_code(response.error_code)
        start = response.producer_id_start
        return ProducerIdsBlock(start, start + response.producer_id_len - 1)


def _check_error_code(code: int) -> None:
    if code:
        raise KafkaError(error_code=ErrorCode.for_code(code))
