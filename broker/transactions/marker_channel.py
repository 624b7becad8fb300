"""Markers to one broker: those that come while a request is under way go with the next.

Those to this broker itself go at once.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol

from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import Client
from odradek.broker.own_client import OwnClient
from odradek.broker.turns import FEW
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.protocol.errors import DecodeError
from odradek.protocol.schema import Message
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

Marker = WriteTxnMarkersRequest.Marker
#: By partition; one that is not there was not reached.
Codes = Mapping[TopicPartition, int]

_Waiting = tuple[Marker, asyncio.Future[Codes]]

VERSION = 1
#: In one request: whoever waits for them goes on in one turn when it is answered.
MARKERS_MAX = FEW


class Clients(Protocol):
    """Of all brokers."""

    def to(self, node: Node, /) -> Client: ...

    def close(self) -> None: ...


class MarkerLinks:
    """One for each broker."""

    def __init__(
        self, clients: Clients, start: Callable[[Coroutine[Any, Any, Any], str], Awaitable[Any]]
    ) -> None:
        self._clients = clients
        self._start = start
        self._links: dict[int, MarkerLink] = {}

    def write(self, node: Node, marker: Marker) -> Codes | Awaitable[Codes]:
        """What the broker says of each partition of the marker."""
        client = self._clients.to(node)
        if isinstance(client, OwnClient):
            return self._written_here(client, marker)
        link = self._links.get(node.id)
        if link is None:
            link = self._links[node.id] = MarkerLink(self._clients, self._start)
        return link.write(node, marker)

    def _written_here(self, client: OwnClient, marker: Marker) -> Codes | Awaitable[Codes]:
        try:
            response = client.ask(WriteTxnMarkersRequest(markers=[marker]), version=VERSION)
        except ConnectionError:
            return {}
        if isinstance(response, Message):
            return _codes_of_one(response)
        return self._start(_codes_later(response), "markers of our own")

    def close(self) -> None:
        self._clients.close()


class MarkerLink:
    """Knows the broker as it was last told of it."""

    def __init__(
        self, clients: Clients, start: Callable[[Coroutine[Any, Any, None], str], object]
    ) -> None:
        self._clients = clients
        self._start = start
        self._waiting: list[_Waiting] = []
        self._is_sending = False

    def write(self, node: Node, marker: Marker) -> asyncio.Future[Codes]:
        answer: asyncio.Future[Codes] = asyncio.get_running_loop().create_future()
        self._waiting.append((marker, answer))
        self._node = node
        if not self._is_sending:
            self._is_sending = True
            self._start(self._send_all(), f"markers to broker {node.id}")
        return answer

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._send()
        finally:
            # Nobody waits for ever, whatever happens here.
            self._is_sending = False
            left, self._waiting = self._waiting, []
            _tell(left, {})

    async def _send(self) -> None:
        batch, self._waiting = self._waiting[:MARKERS_MAX], self._waiting[MARKERS_MAX:]
        codes: Mapping[int, Codes] = {}
        try:
            codes = await self._asked([marker for marker, _ in batch])
        except (OSError, DecodeError) as failure:
            log.warning("Markers do not reach broker %d: %s", self._node.id, failure)
        finally:
            _tell(batch, codes)

    async def _asked(self, markers: list[Marker]) -> Mapping[int, Codes]:
        client = self._clients.to(self._node)
        request = WriteTxnMarkersRequest(markers=markers)
        return _codes(await client.send(request, version=VERSION))


async def _codes_later(response: Awaitable[Message]) -> Codes:
    return _codes_of_one(await response)


def _codes_of_one(response: Message) -> Codes:
    (codes,) = _codes(response).values()
    return codes


def _codes(response: Message) -> Mapping[int, Codes]:
    """By the producer's id: at any time it has one transaction at most."""
    assert isinstance(response, WriteTxnMarkersResponse)
    codes: dict[int, dict[TopicPartition, int]] = {}
    for marker in response.markers:
        of_producer = codes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for line in topic.partitions:
                of_producer[TopicPartition(topic.name, line.partition_index)] = line.error_code
    return codes


def _tell(waiting: Iterable[_Waiting], codes: Mapping[int, Codes]) -> None:
    for marker, answer in waiting:
        if not answer.done():  # whoever waits may have gone
            answer.set_result(codes.get(marker.producer_id, {}))
