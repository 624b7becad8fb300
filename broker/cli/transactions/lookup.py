"""Fetches transactions from their coordinators, and producer states from partition leaders."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.broker.cli import broker_connections, client
from odradek.broker.cli.broker_connections import Address, BrokerConnections
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.groups.coordinator_retries import RETRIABLE_ERRORS, RETRY_BACKOFF_S
from odradek.broker.cli.partitions import TopicAndPartition

if TYPE_CHECKING:
    from odradek.protocol.api.describe_producers import DescribeProducersResponse
    from odradek.protocol.api.describe_transactions import DescribeTransactionsResponse
    from odradek.protocol.api.list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
    )

    ProducerState = DescribeProducersResponse.Topic.Partition.Producer
    TransactionDescription = DescribeTransactionsResponse.Transaction
    TransactionListing = ListTransactionsResponse.Transaction

STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
    "PrepareEpochFence",
)
TOOL = "kafka-transactions"
TRANSACTION_COORDINATOR_TYPE = 1  # the coordinator type of transactional ids
FIND_COORDINATOR_VERSION = 4  # the first version with several keys
NOT_FOUND = "TRANSACTIONAL_ID_NOT_FOUND"
#: Limits the work of a broker for one request.
PARTITIONS_PER_REQUEST = 500

Response = TypeVar("Response")
#: Called with the error of a partition whose producers cannot be described.
ErrorCallback = Callable[[CommandFailed], None]


def _raise_error(error: CommandFailed) -> None:
    raise error


def transactions_command(
    command: Callable[[argparse.Namespace, TransactionsClient], Awaitable[int]],
) -> client.CommandFunction:
    """Make a command of ``command``."""

    async def with_cluster(arguments: argparse.Namespace, connections: BrokerConnections) -> int:
        return await command(arguments, TransactionsClient(arguments, connections))

    def run(arguments: argparse.Namespace) -> int:
        return broker_connections.run(arguments, partial(with_cluster, arguments), tool=TOOL)

    return client.client_command(run)


class TransactionsClient:
    """The brokers and leaders of a cluster, fetched once, and requests to them."""

    def __init__(self, arguments: argparse.Namespace, connections: BrokerConnections) -> None:
        self._admin = client.create_admin_client(arguments)
        self._metadata = self._admin.list_topics(timeout=arguments.timeout)
        self._connections = connections
        self._timeout_s = arguments.timeout
        brokers: Iterable[Any] = self._metadata.brokers.values()  # the library's types are wrong
        self.brokers = {broker.id: Address(broker.host, broker.port) for broker in brokers}

    def all_partitions(self) -> list[TopicAndPartition]:
        return sorted(
            TopicAndPartition(name, number)
            for name, topic in self._metadata.topics.items()
            for number in topic.partitions
        )

    def leader(self, topic_partition: TopicAndPartition) -> int:
        leader = self._leader(topic_partition)
        if leader is None:
            raise CommandFailed(
                f"{topic_partition}: there is no such partition, or it has no leader"
            )
        return leader

    def is_led_by(self, broker_id: int, topic_partition: TopicAndPartition) -> bool:
        return self._leader(topic_partition) == broker_id

    def _leader(self, topic_partition: TopicAndPartition) -> int | None:
        topic = self._metadata.topics.get(topic_partition.topic)
        partition = topic and topic.partitions.get(topic_partition.partition)
        return partition.leader if partition and partition.leader in self.brokers else None

    def check_broker(self, broker_id: int) -> None:
        if broker_id not in self.brokers:
            raise CommandFailed(f"broker {broker_id}: there is no such broker")

    async def send_to_broker(self, broker_id: int, request: Any, *, version: int) -> Any:
        self.check_broker(broker_id)
        return await self._connections.send(self.brokers[broker_id], request, version=version)

    async def list_transactions(
        self, request: ListTransactionsRequest
    ) -> list[tuple[TransactionListing, int]]:
        """Return the transactions with the ids of their coordinators, by name."""
        listings = []
        for broker, address in self.brokers.items():
            version = await self._list_transactions_version(address, request)

            async def send(broker: int = broker, version: int = version) -> Any:
                return await self.send_to_broker(broker, request, version=version)

            response = await self._send_with_retries(send, lambda response: [response.error_code])
            _check_error(f"broker {broker}", response.error_code)
            listings += [(each, broker) for each in response.transaction_states]
        return sorted(listings, key=lambda listing: listing[0].transactional_id)

    async def _list_transactions_version(
        self, address: Address, request: ListTransactionsRequest
    ) -> int:
        """Return the lowest version with the filters; raises CommandFailed if unsupported."""
        from odradek.protocol.api.api_versions import ApiVersionsRequest
        from odradek.protocol.api_keys import ApiKey

        version = 1 if request.duration_filter >= 0 else 0
        version = version if request.transactional_id_pattern is None else 2
        if not version:
            return version
        response = await self._connections.send(address, ApiVersionsRequest(), version=0)
        max_versions = {each.api_key: each.max_version for each in response.api_keys}
        if max_versions.get(ApiKey.LIST_TRANSACTIONS, -1) < version:
            raise CommandFailed(
                f"the broker at {address} does not support this filter of transactions"
            )
        return version

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, tuple[TransactionDescription | None, int]]:
        """Return each transaction and its coordinator; None for an id that does not exist."""
        from odradek.protocol.api.describe_transactions import DescribeTransactionsRequest

        descriptions: dict[str, tuple[TransactionDescription | None, int]] = {}
        for name in transactional_ids:
            request = DescribeTransactionsRequest(transactional_ids=[name])
            coordinator = -1

            async def send(name: str = name, request: Any = request) -> Any:
                nonlocal coordinator
                coordinator = await self._find_coordinator(name)
                return await self.send_to_broker(coordinator, request, version=0)

            response = await self._send_with_retries(send, _transaction_error_codes)
            (transaction,) = response.transaction_states
            exists = _error_name(transaction.error_code) != NOT_FOUND
            if exists:
                _check_error(name, transaction.error_code)
            descriptions[name] = (transaction if exists else None), coordinator
        return descriptions

    async def _find_coordinator(self, transactional_id: str) -> int:
        from odradek.protocol.api.find_coordinator import FindCoordinatorRequest

        request = FindCoordinatorRequest(
            key_type=TRANSACTION_COORDINATOR_TYPE, coordinator_keys=[transactional_id]
        )

        async def send() -> Any:
            any_broker = next(iter(self.brokers))
            return await self.send_to_broker(any_broker, request, version=FIND_COORDINATOR_VERSION)

        response = await self._send_with_retries(
            send, lambda response: [each.error_code for each in response.coordinators]
        )
        (coordinator,) = response.coordinators
        _check_error(transactional_id, coordinator.error_code)
        self.brokers.setdefault(coordinator.node_id, Address(coordinator.host, coordinator.port))
        return int(coordinator.node_id)

    async def describe_producers(
        self,
        topic_partitions: Iterable[TopicAndPartition],
        *,
        broker_id: int | None = None,
        on_error: ErrorCallback = _raise_error,
    ) -> dict[TopicAndPartition, list[ProducerState]]:
        """Return the active producers of each partition, from its leader or from ``broker_id``.

        A partition with an error is omitted, unless ``on_error`` raises.
        """
        by_broker: defaultdict[int, list[TopicAndPartition]] = defaultdict(list)
        for topic_partition in topic_partitions:
            try:
                by_broker[self.leader(topic_partition) if broker_id is None else broker_id].append(
                    topic_partition
                )
            except CommandFailed as error:
                on_error(error)
        producers: dict[TopicAndPartition, list[ProducerState]] = {}
        for broker, partitions in by_broker.items():
            for begin in range(0, len(partitions), PARTITIONS_PER_REQUEST):
                producers |= await self._describe_producers_on(
                    broker, partitions[begin : begin + PARTITIONS_PER_REQUEST], on_error
                )
        return {each: producers[each] for each in topic_partitions if each in producers}

    async def _describe_producers_on(
        self, broker_id: int, topic_partitions: list[TopicAndPartition], on_error: ErrorCallback
    ) -> dict[TopicAndPartition, list[ProducerState]]:
        from odradek.protocol.api.describe_producers import DescribeProducersRequest

        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for topic_partition in topic_partitions:
            numbers[topic_partition.topic].append(topic_partition.partition)
        topics = [
            DescribeProducersRequest.Topic(name=name, partition_indexes=indexes)
            for name, indexes in numbers.items()
        ]
        response = await self.send_to_broker(
            broker_id, DescribeProducersRequest(topics=topics), version=0
        )
        producers = {}
        for topic in response.topics:
            for partition in topic.partitions:
                topic_partition = TopicAndPartition(topic.name, partition.partition_index)
                if partition.error_code:
                    on_error(
                        CommandFailed(
                            f"{topic_partition}: "
                            f"{broker_connections.format_error_code(partition.error_code)}"
                        )
                    )
                else:
                    producers[topic_partition] = partition.active_producers
        return producers

    async def _send_with_retries(
        self,
        send: Callable[[], Awaitable[Response]],
        error_codes: Callable[[Response], Iterable[int]],
    ) -> Response:
        """Return the response; retry retriable errors until the timeout."""
        import asyncio

        deadline = time.monotonic() + self._timeout_s
        while True:
            response = await send()
            if not any(_error_name(code) in RETRIABLE_ERRORS for code in error_codes(response)):
                return response
            if time.monotonic() > deadline:
                return response
            await asyncio.sleep(RETRY_BACKOFF_S)


def _transaction_error_codes(response: DescribeTransactionsResponse) -> list[int]:
    return [each.error_code for each in response.transaction_states]


def _error_name(error_code: int) -> str:
    from odradek.protocol.error_codes import ErrorCode

    return ErrorCode.for_code(error_code).name


def _check_error(subject: str, error_code: int) -> None:
    if error_code:
        raise CommandFailed(f"{subject}: {broker_connections.format_error_code(error_code)}")
