"""What this broker asks of the controller, whichever broker that is at the moment.

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
    """Of producer ids; both ends are in it."""

    block_start: int
    block_end: int


class ControllerClient:
    """Raises KafkaError where the controller refuses, does not answer, or is not known."""

    def __init__(
        self,
        local_node: Node,
        *,
        controller_id: Callable[[], int],
        nodes: Callable[[], Mapping[int, Node]],
        clients: BrokerClients,
        broker_epoch: Callable[[], int],
    ) -> None:
        """``itself`` is known before any picture of the cluster has come."""
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
        """One that is cut off, or stands still, never answers; its successor can be asked now."""
        self._clients.close_all_except(self._controller_id())

    async def send(self, request: Message, *, version: int) -> Message:
        controller_id = self._controller_id()
        node = self._local_node
        if controller_id != node.id:
            controller = self._nodes().get(controller_id)
            if controller is None:
                raise NotController("nobody is known to be the controller")
            node = controller
        try:
            return await self._clients.client_for(node).send(request, version=version)
        except (OSError, DecodeError) as error:
            raise RequestTimedOut(f"controller {node.id} does not answer: {error}") from error

    async def controlled_shutdown(self) -> list[TopicPartition]:
        """What this broker, which is about to stop, still leads."""
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
