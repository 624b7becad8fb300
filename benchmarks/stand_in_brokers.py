"""Brokers that only listen: they believe what a controller tells them, answer, and note who leads.

Every controller, ours or Apache Kafka's, reaches them at a port each.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import NamedTuple, cast

from odradek.broker.network.client import BrokerClient
from odradek.controller.broker_link import BrokerLink, ControlRequest, ControlResponse
from odradek.controller.context import Broker
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
NO_PORT = 9092  # of a broker that does not listen yet
CLIENT_ID = "benchmark"
PATIENCE_S = 120

REQUESTS: dict[ApiKey, type[ControlRequest]] = {
    ApiKey.LEADER_AND_ISR: LeaderAndIsrRequest,
    ApiKey.UPDATE_METADATA: UpdateMetadataRequest,
    ApiKey.STOP_REPLICA: StopReplicaRequest,
}
ANSWERS: dict[type[ControlRequest], Callable[[], ControlResponse]] = {
    LeaderAndIsrRequest: lambda: LeaderAndIsrResponse(error_code=0),
    UpdateMetadataRequest: lambda: UpdateMetadataResponse(error_code=0),
    StopReplicaRequest: lambda: StopReplicaResponse(error_code=0, partition_errors=[]),
}


class Told(NamedTuple):
    leader: int
    isr: tuple[int, ...]


class StandInBrokers:
    """All that run, by id, and what each was told of every partition."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.pictures: dict[int, dict[TopicPartition, Told]] = {broker: {} for broker in ids}
        self._ports = dict.fromkeys(self.pictures, NO_PORT)
        self._has_heard = asyncio.Event()

    def registration(self, broker: int) -> BrokerRegistration:
        at = Endpoint(LISTENER, LOOPBACK, self._ports[broker], SecurityProtocol.PLAINTEXT)
        return BrokerRegistration((at,))

    def forget(self) -> None:
        for picture in self.pictures.values():
            picture.clear()

    async def until(self, is_so: Callable[[dict[TopicPartition, Told]], bool], *ids: int) -> None:
        """Until it is so of what each of these brokers was told."""
        async with asyncio.timeout(PATIENCE_S):
            while not all(is_so(self.pictures[broker]) for broker in ids):
                self._has_heard.clear()
                await self._has_heard.wait()

    async def until_told_of(self, count: int, *ids: int) -> None:
        """Until each of these brokers was told of so many partitions."""
        await self.until(lambda picture: len(picture) == count, *ids)

    def connect(self, broker: Broker) -> BrokerLink:
        """For a controller in this process, as a broker's connects."""
        (at,) = broker.registration.endpoints
        client = BrokerClient(at.host, at.port, client_id=CLIENT_ID, timeout_s=PATIENCE_S)
        return cast(BrokerLink, client)

    async def listen(self) -> list[asyncio.Server]:
        servers = []
        for broker in self.pictures:
            server = await asyncio.start_server(self._serve(broker), LOOPBACK, 0)
            self._ports[broker] = server.sockets[0].getsockname()[1]
            servers.append(server)
        return servers

    def _serve(
        self, broker: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
                    writer.writelines(self._answered(broker, await reader.readexactly(size)))
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        return serve

    def _answered(self, broker: int, frame: bytes) -> list[bytes]:
        header, position = decode_request_header(frame)
        key, version = ApiKey(header.request_api_key), header.request_api_version
        request = decode(REQUESTS[key], version, frame, position)
        response = self.take(broker, request)
        return response_frame(key, version, header.correlation_id, response)

    def take(self, broker: int, request: ControlRequest) -> ControlResponse:
        if isinstance(request, UpdateMetadataRequest):
            self.pictures[broker].update(_told(request))
            self._has_heard.set()
        return ANSWERS[type(request)]()


def _told(request: UpdateMetadataRequest) -> Iterator[tuple[TopicPartition, Told]]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            partition = TopicPartition(topic.topic_name, state.partition_index)
            yield partition, Told(state.leader, tuple(state.isr))
