"""Markers to one broker: those that come while a request is under way go with the next.

Those to this broker itself go at once.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol

from odradek.broker.loopback_client import LoopbackClient
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.network.broker_clients import Client
from odradek.broker.time_slice import INLINE_ENTRIES_MAX
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.protocol.errors import DecodeError
from odradek.protocol.schema import Message
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

Marker = WriteTxnMarkersRequest.Marker
#: By partition; one that is not there was not reached.
PartitionErrorCodes = Mapping[TopicPartition, int]

_QueuedMarker = tuple[Marker, asyncio.Future[PartitionErrorCodes]]

API_VERSION = 1
#: In one request: whoever waits for them goes on in one turn when it is answered.
MAX_MARKERS_PER_REQUEST = INLINE_ENTRIES_MAX


class Clients(Protocol):
    """Of all brokers."""

    def client_for(self, node: Node, /) -> Client: ...

    def close(self) -> None: ...


class MarkerChannels:
    """One for each broker."""

    def __init__(
        self,
        clients: Clients,
        start_task: Callable[[Coroutine[Any, Any, Any], str], Awaitable[Any]],
    ) -> None:
        self._clients = clients
        self._start_task = start_task
        self._channels: dict[int, MarkerChannel] = {}

    def write(
        self, node: Node, marker: Marker
    ) -> PartitionErrorCodes | Awaitable[PartitionErrorCodes]:
        """What the broker says of each partition of the marker."""
        client = self._clients.client_for(node)
        if isinstance(client, LoopbackClient):
            return self._write_locally(client, marker)
        channel = self._channels.get(node.id)
        if channel is None:
            channel = self._channels[node.id] = MarkerChannel(self._clients, self._start_task)
        return channel.write(node, marker)

    def _write_locally(
        self, client: LoopbackClient, marker: Marker
    ) -> PartitionErrorCodes | Awaitable[PartitionErrorCodes]:
        try:
            response = client.send_nowait(
                WriteTxnMarkersRequest(markers=[marker]), version=API_VERSION
            )
        except ConnectionError:
            return {}
        if isinstance(response, Message):
            return _single_marker_error_codes(response)
        return self._start_task(_await_error_codes(response), "markers of our own")

    def close(self) -> None:
        self._clients.close()


class MarkerChannel:
    """Knows the broker as it was last told of it."""

    def __init__(
        self, clients: Clients, start_task: Callable[[Coroutine[Any, Any, None], str], object]
    ) -> None:
        self._clients = clients
        self._start_task = start_task
        self._queue: list[_QueuedMarker] = []
        self._is_sending = False

    def write(self, node: Node, marker: Marker) -> asyncio.Future[PartitionErrorCodes]:
        future: asyncio.Future[PartitionErrorCodes] = asyncio.get_running_loop().create_future()
        self._queue.append((marker, future))
        self._node = node
        if not self._is_sending:
            self._is_sending = True
            self._start_task(self._send_all(), f"markers to broker {node.id}")
        return future

    async def _send_all(self) -> None:
        try:
            while self._queue:
                await self._send()
        finally:
            # Nobody waits for ever, whatever happens here.
            self._is_sending = False
            unsent, self._queue = self._queue, []
            _complete_markers(unsent, {})

    async def _send(self) -> None:
        batch, self._queue = (
            self._queue[:MAX_MARKERS_PER_REQUEST],
            self._queue[MAX_MARKERS_PER_REQUEST:],
        )
        codes: Mapping[int, PartitionErrorCodes] = {}
        try:
            codes = await self._write_markers([marker for marker, _ in batch])
        except (OSError, DecodeError) as error:
            log.warning("Markers do not reach broker %d: %s", self._node.id, error)
        finally:
            _complete_markers(batch, codes)

    async def _write_markers(self, markers: list[Marker]) -> Mapping[int, PartitionErrorCodes]:
        client = self._clients.client_for(self._node)
        request = WriteTxnMarkersRequest(markers=markers)
        return _error_codes_by_producer_id(await client.send(request, version=API_VERSION))


async def _await_error_codes(response: Awaitable[Message]) -> PartitionErrorCodes:
    return _single_marker_error_codes(await response)


def _single_marker_error_codes(response: Message) -> PartitionErrorCodes:
    (codes,) = _error_codes_by_producer_id(response).values()
    return codes


def _error_codes_by_producer_id(response: Message) -> Mapping[int, PartitionErrorCodes]:
    """By the producer's id: at any time it has one transaction at most."""
    assert isinstance(response, WriteTxnMarkersResponse)
    codes: dict[int, dict[TopicPartition, int]] = {}
    for marker in response.markers:
        partition_codes = codes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partitions:
                partition_codes[TopicPartition(topic.name, partition.partition_index)] = (
                    partition.error_code
                )
    return codes


def _complete_markers(
    queued: Iterable[_QueuedMarker], error_codes: Mapping[int, PartitionErrorCodes]
) -> None:
    for marker, future in queued:
        if not future.done():  # whoever waits may have gone
            future.set_result(error_codes.get(marker.producer_id, {}))
