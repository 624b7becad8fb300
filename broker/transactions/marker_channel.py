"""Sends transaction markers to one broker.

Kafka: TxnMarkerQueue.

Markers that arrive while a request is in flight are sent in the next request.  Markers for this
broker are written at once.

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

log = logging.getLogger("kafka.coordinator.transaction")

Marker = WriteTxnMarkersRequest.Marker
#: By partition; a partition that was not reached is missing.
PartitionErrorCodes = Mapping[TopicPartition, int]

_QueuedMarker = tuple[Marker, asyncio.Future[PartitionErrorCodes]]

API_VERSION = 1
#: All callers that wait for the markers of a request continue in the same time slice.
MAX_MARKERS_PER_REQUEST = INLINE_ENTRIES_MAX


class Clients(Protocol):
    """The clients of all brokers."""

    def client_for(self, node: Node, /) -> Client: ...

    def close(self) -> None: ...


class MarkerChannels:
    """One channel for each broker."""

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
        """Return the error code of each partition of the marker."""
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
        return self._start_task(_await_error_codes(response), "markers on this broker")

    def close(self) -> None:
        self._clients.close()


class MarkerChannel:
    """The markers for one broker.  The node of the last marker gives its address."""

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
            # Complete the futures even if this task fails.
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
            log.warning("WriteTxnMarkers request failed for broker %d: %s", self._node.id, error)
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
    """Group by producer id: a producer has at most one transaction at a time."""
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
        if not future.done():  # the caller may be gone
            future.set_result(error_codes.get(marker.producer_id, {}))
