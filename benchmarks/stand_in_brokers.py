"""Stand-in brokers: they accept every controller request and record leaders and ISRs.

Every controller, ours or Apache Kafka's, connects to each of them at its own port.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import NamedTuple, cast

from odradek.broker.network.broker_client import BrokerClient
from odradek.controller.controller_channel import BrokerConnection, ControlRequest, ControlResponse
from odradek.controller.controller_context import Broker
from odradek.controller.store.payloads.broker import (
    BrokerRegistration,
    Endpoint,
    SecurityProtocol,
)
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.api.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode
from odradek.protocol.header import SIZE, decode_request_header, response_frame
from odradek.protocol.types import TopicPartition

LISTENER = "PLAINTEXT"
LOOPBACK = "127.0.0.1"
UNBOUND_PORT = 9092  # of a broker that does not listen yet
CLIENT_ID = "benchmark"
TIMEOUT_S = 120

REQUEST_CLASSES: dict[ApiKey, type[ControlRequest]] = {
    ApiKey.LEADER_AND_ISR: LeaderAndIsrRequest,
    ApiKey.UPDATE_METADATA: UpdateMetadataRequest,
    ApiKey.STOP_REPLICA: StopReplicaRequest,
}
RESPONSE_FACTORIES: dict[type[ControlRequest], Callable[[], ControlResponse]] = {
    LeaderAndIsrRequest: lambda: LeaderAndIsrResponse(error_code=0),
    UpdateMetadataRequest: lambda: UpdateMetadataResponse(error_code=0),
    StopReplicaRequest: lambda: StopReplicaResponse(error_code=0, partition_errors=[]),
}


class PartitionState(NamedTuple):
    leader: int
    isr: tuple[int, ...]


class StandInBrokers:
    """The running brokers by id, and the metadata that each has received for every partition."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.snapshots: dict[int, dict[TopicPartition, PartitionState]] = {
            broker: {} for broker in ids
        }
        self._ports = dict.fromkeys(self.snapshots, UNBOUND_PORT)
        self._updated = asyncio.Event()

    def registration(self, broker_id: int) -> BrokerRegistration:
        endpoint = Endpoint(LISTENER, LOOPBACK, self._ports[broker_id], SecurityProtocol.PLAINTEXT)
        return BrokerRegistration((endpoint,))

    def clear(self) -> None:
        for snapshot in self.snapshots.values():
            snapshot.clear()

    async def wait_until(
        self, condition: Callable[[dict[TopicPartition, PartitionState]], bool], *ids: int
    ) -> None:
        """Wait until the condition holds for the metadata of each of these brokers."""
        async with asyncio.timeout(TIMEOUT_S):
            while not all(condition(self.snapshots[broker]) for broker in ids):
                self._updated.clear()
                await self._updated.wait()

    async def wait_for_partition_count(self, count: int, *ids: int) -> None:
        """Wait until each of these brokers has metadata of this many partitions."""
        await self.wait_until(lambda snapshot: len(snapshot) == count, *ids)

    def connect(self, broker: Broker) -> BrokerConnection:
        """Connect a controller of this process to a broker."""
        (endpoint,) = broker.registration.endpoints
        client = BrokerClient(
            endpoint.host, endpoint.port, client_id=CLIENT_ID, timeout_s=TIMEOUT_S
        )
        return cast(BrokerConnection, client)

    async def listen(self) -> list[asyncio.Server]:
        servers = []
        for broker in self.snapshots:
            server = await asyncio.start_server(self._serve(broker), LOOPBACK, 0)
            self._ports[broker] = server.sockets[0].getsockname()[1]
            servers.append(server)
        return servers

    def _serve(
        self, broker_id: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
                    writer.writelines(self._handle_frame(broker_id, await reader.readexactly(size)))
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        return serve

    def _handle_frame(self, broker_id: int, frame: bytes) -> list[bytes]:
        header, position = decode_request_header(frame)
        key, version = ApiKey(header.request_api_key), header.request_api_version
        request = decode(REQUEST_CLASSES[key], version, frame, position)
        response = self.handle_request(broker_id, request)
        return response_frame(key, version, header.correlation_id, response)

    def handle_request(self, broker_id: int, request: ControlRequest) -> ControlResponse:
        if isinstance(request, UpdateMetadataRequest):
            self.snapshots[broker_id].update(_partition_states(request))
            self._updated.set()
        return RESPONSE_FACTORIES[type(request)]()


def _partition_states(
    request: UpdateMetadataRequest,
) -> Iterator[tuple[TopicPartition, PartitionState]]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            partition = TopicPartition(topic.topic_name, state.partition_index)
            yield partition, PartitionState(state.leader, tuple(state.isr))
