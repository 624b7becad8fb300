"""A client for operators: it sends requests to any broker, to one broker or to the controller.

It uses the connections of broker_connections.py, since confluent-kafka has no function for most of
these requests.  Kafka 2.4 and later support all of them.  Any broker names the controller in its
metadata.  If a broker responds NOT_CONTROLLER, the client fetches the metadata again and retries
until the timeout.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.broker.cli import broker_connections, client
from odradek.broker.cli.broker_connections import Address, BrokerConnections, RetriableError
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.hedged_request import first_response
from odradek.broker.cli.partitions import TopicAndPartition

if TYPE_CHECKING:
    from odradek.protocol.schema import Message

METADATA_VERSION = 7
NO_BROKER_ID = -1
RETRY_BACKOFF_S = 0.1
#: The errors of a broker that is not the controller.
RETRIABLE_ERRORS = frozenset({"NOT_CONTROLLER"})


class Broker(NamedTuple):
    address: Address
    rack: str | None


class PartitionInfo(NamedTuple):
    """The leader of a partition, if it has one, its replicas and its ISR."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """The metadata that one broker returned."""

    cluster_id: str | None
    controller_id: int | None
    brokers: Mapping[int, Broker]
    partitions: Mapping[TopicAndPartition, PartitionInfo]


ErrorCodeExtractor = Callable[[Any], Iterable[int]]
ClusterCommand = Callable[[argparse.Namespace, "ClusterClient"], Awaitable[int]]


def cluster_command(command: ClusterCommand, *, tool: str) -> client.CommandFunction:
    """Make a command of ``command``; ``tool`` is the tool of Kafka that does the same."""

    async def with_cluster(arguments: argparse.Namespace, connections: BrokerConnections) -> int:
        cluster = ClusterClient(connections, arguments.bootstrap, timeout_s=arguments.timeout)
        return await command(arguments, cluster)

    def run(arguments: argparse.Namespace) -> int:
        return broker_connections.run(arguments, partial(with_cluster, arguments), tool=tool)

    return client.client_command(run)


class ClusterClient:
    """``bootstrap`` is the value of ``--bootstrap``: the brokers to connect to first."""

    def __init__(self, connections: BrokerConnections, bootstrap: str, *, timeout_s: float) -> None:
        self._connections = connections
        self._addresses = dict.fromkeys(map(_parse_address, bootstrap.split(",")))
        self._brokers: Mapping[int, Broker] = {}
        self._controller_id: int | None = None
        self.timeout_s = timeout_s

    async def fetch_metadata(self, topics: Iterable[str] | None = None) -> MetadataSnapshot:
        """Fetch the metadata of ``topics``, or of all; raises CommandFailed if one is missing."""
        request = _metadata_request(topics)
        return self._update(await self.send_to_any_broker(request, version=METADATA_VERSION))

    async def fetch_controller_metadata(self) -> MetadataSnapshot:
        """Fetch the metadata of all topics from the controller.

        The metadata of other brokers may not show a change yet that the controller has just made.
        """
        response = await self.send_to_controller(
            _metadata_request(None), version=METADATA_VERSION, error_codes=lambda _: ()
        )
        return self._update(response)

    def _update(self, response: Any) -> MetadataSnapshot:
        self._brokers = {
            broker.node_id: Broker(Address(broker.host, broker.port), broker.rack)
            for broker in response.brokers
        }
        self._controller_id = _broker_id_or_none(response.controller_id)
        return MetadataSnapshot(
            response.cluster_id, self._controller_id, self._brokers, _partition_infos(response)
        )

    def with_deadline(self, deadline: float) -> ClusterClient:
        """Return a copy whose timeout ends at the deadline, if that is sooner."""
        limited = copy(self)
        limited.timeout_s = min(self.timeout_s, max(0.0, deadline - time.monotonic()))
        return limited

    async def send_to_controller(
        self, request: Message, *, version: int, error_codes: ErrorCodeExtractor
    ) -> Any:
        """Return the controller's response.

        ``error_codes`` extracts the error codes of a response, to detect NOT_CONTROLLER.
        """
        import asyncio

        last_error: RetriableError | None = None
        try:
            async with asyncio.timeout(self.timeout_s):
                while True:
                    try:
                        return await self._send_to_controller(request, version, error_codes)
                    except RetriableError as error:
                        last_error = error
                    await asyncio.sleep(RETRY_BACKOFF_S)
                    await self.fetch_metadata([])
        except TimeoutError as timeout:
            message = f"broker {self._controller_id}, the controller, did not respond"
            raise last_error or RetriableError(
                f"{message} within {round(self.timeout_s, 1):g} s"
            ) from timeout

    async def _send_to_controller(
        self, request: Message, version: int, error_codes: ErrorCodeExtractor
    ) -> Any:
        if not self._brokers:
            await self.fetch_metadata([])
        if self._controller_id is None:
            raise RetriableError("the cluster has no controller")
        response = await self.send_to_broker(self._controller_id, request, version=version)
        for code in error_codes(response):
            if error_name(code) in RETRIABLE_ERRORS:
                raise RetriableError(
                    f"broker {self._controller_id}: {broker_connections.format_error_code(code)}"
                )
        return response

    async def send_to_broker(self, broker_id: int, request: Message, *, version: int) -> Any:
        import asyncio

        if broker_id not in self._brokers:
            raise RetriableError(f"broker {broker_id}: there is no such broker")
        address = self._brokers[broker_id].address
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._connections.send(address, request, version=version)
        except TimeoutError as timeout:
            message = f"broker {broker_id} at {address} did not respond"
            raise RetriableError(f"{message} within {round(self.timeout_s, 1):g} s") from timeout

    async def send_to_any_broker(self, request: Message, *, version: int) -> Any:
        async def send(address: Address) -> Any:
            response = await self._connections.send(address, request, version=version)
            # The next request goes first to the broker that has responded.
            self._addresses = {address: None} | self._addresses
            return response

        addresses = [*self._addresses, *(broker.address for broker in self._brokers.values())]
        return await first_response(send, dict.fromkeys(addresses), timeout_s=self.timeout_s)


def group_by_topic(topic_partitions: Iterable[TopicAndPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic, as requests list them."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for topic_partition in sorted(topic_partitions):
        numbers[topic_partition.topic].append(topic_partition.partition)
    return dict(numbers)


def check_error(error_code: int, message: str | None = None, *, subject: str) -> None:
    """Raise CommandFailed unless the error code is 0."""
    if error_code:
        raise CommandFailed(f"{subject}: {format_error(error_code, message)}")


def format_error(error_code: int, message: str | None) -> str:
    """Format an error with the broker's message, or else with the message of the code."""
    return (
        f"{error_name(error_code)}: {message}"
        if message
        else broker_connections.format_error_code(error_code)
    )


def error_name(error_code: int) -> str:
    from odradek.protocol.error_codes import ErrorCode

    return ErrorCode.for_code(error_code).name


def _metadata_request(topics: Iterable[str] | None) -> Message:
    from odradek.protocol.api.metadata import MetadataRequest

    requested = [MetadataRequest.Topic(name=name) for name in dict.fromkeys(topics or ())]
    return MetadataRequest(
        topics=None if topics is None else requested, allow_auto_topic_creation=False
    )


def _partition_infos(response: Any) -> dict[TopicAndPartition, PartitionInfo]:
    infos = {}
    for topic in response.topics:
        check_error(topic.error_code, subject=topic.name)
        for partition in topic.partitions:
            infos[TopicAndPartition(topic.name, partition.partition_index)] = PartitionInfo(
                _broker_id_or_none(partition.leader_id),
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
            )
    return dict(sorted(infos.items()))


def _broker_id_or_none(broker_id: int) -> int | None:
    return None if broker_id == NO_BROKER_ID else broker_id


def _parse_address(argument: str) -> Address:
    """The argument is valid: client.py has checked it before."""
    host, _, port = argument.strip().rpartition(":")
    return Address(host.strip("[]"), int(port))
