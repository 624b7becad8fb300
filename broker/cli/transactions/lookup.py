"""What a cluster says of transactions: coordinators of their ids, leaders of their records."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.broker.cli import client, direct
from odradek.broker.cli.direct import Address, Connections
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.groups.coordinator import PASSING, PAUSE_S
from odradek.broker.cli.partitions import Place

if TYPE_CHECKING:
    from odradek.protocol.api.describe_producers import DescribeProducersResponse
    from odradek.protocol.api.describe_transactions import DescribeTransactionsResponse
    from odradek.protocol.api.list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
    )

    Producer = DescribeProducersResponse.Topic.Partition.Producer
    Transaction = DescribeTransactionsResponse.Transaction
    Listing = ListTransactionsResponse.Transaction

STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
    "PrepareEpochFence",
)
TOOL = "kafka-transactions"
TRANSACTION = 1  # as the type of a coordinator
FIND_COORDINATOR_VERSION = 4  # the first that takes several ids
NOT_FOUND = "TRANSACTIONAL_ID_NOT_FOUND"
#: Of partitions in a request, so that none holds up its broker.
AT_ONCE = 500

Answer = TypeVar("Answer")
#: What is done about a partition of which nothing is known.
Tell = Callable[[CommandFailed], None]


def _stop(failure: CommandFailed) -> None:
    raise failure


def verb(work: Callable[[argparse.Namespace, Cluster], Awaitable[int]]) -> client.Run:
    """A command that does this with the cluster."""

    async def with_cluster(arguments: argparse.Namespace, connections: Connections) -> int:
        return await work(arguments, Cluster(arguments, connections))

    def run(arguments: argparse.Namespace) -> int:
        return direct.run(arguments, partial(with_cluster, arguments), tool=TOOL)

    return client.client_command(run)


class Cluster:
    """Its brokers, and who leads what; asked when it is made."""

    def __init__(self, arguments: argparse.Namespace, connections: Connections) -> None:
        self._admin = client.admin(arguments)
        self._metadata = self._admin.list_topics(timeout=arguments.timeout)
        self._connections = connections
        self._timeout_s = arguments.timeout
        known: Iterable[Any] = self._metadata.brokers.values()  # whose types are wrong
        self.brokers = {broker.id: Address(broker.host, broker.port) for broker in known}

    def places(self) -> list[Place]:
        """All there are."""
        return sorted(
            Place(name, number)
            for name, topic in self._metadata.topics.items()
            for number in topic.partitions
        )

    def leader(self, place: Place) -> int:
        found = self._leader(place)
        if found is None:
            raise CommandFailed(f"{place}: there is no such partition, or no leader of it")
        return found

    def is_led_by(self, broker: int, place: Place) -> bool:
        return self._leader(place) == broker

    def _leader(self, place: Place) -> int | None:
        topic = self._metadata.topics.get(place.topic)
        partition = topic and topic.partitions.get(place.partition)
        return partition.leader if partition and partition.leader in self.brokers else None

    def check_broker(self, broker: int) -> None:
        if broker not in self.brokers:
            raise CommandFailed(f"broker {broker}: there is no such broker")

    async def ask_broker(self, broker: int, request: Any, *, version: int) -> Any:
        self.check_broker(broker)
        return await self._connections.ask(self.brokers[broker], request, version=version)

    async def listed(self, request: ListTransactionsRequest) -> list[tuple[Listing, int]]:
        """Each with its coordinator, by name."""
        found = []
        for broker, address in self.brokers.items():
            version = await self._list_version(address, request)

            async def ask(broker: int = broker, version: int = version) -> Any:
                return await self.ask_broker(broker, request, version=version)

            answer = await self._settled(ask, lambda answer: [answer.error_code])
            _check(f"broker {broker}", answer.error_code)
            found += [(each, broker) for each in answer.transaction_states]
        return sorted(found, key=lambda each: each[0].transactional_id)

    async def _list_version(self, address: Address, request: ListTransactionsRequest) -> int:
        """The first that has what is asked for.  Raises CommandFailed if the broker does not."""
        from odradek.protocol.api.api_versions import ApiVersionsRequest
        from odradek.protocol.api_keys import ApiKey

        needed = 1 if request.duration_filter >= 0 else 0
        needed = needed if request.transactional_id_pattern is None else 2
        if not needed:
            return needed
        answer = await self._connections.ask(address, ApiVersionsRequest(), version=0)
        known = {each.api_key: each.max_version for each in answer.api_keys}
        if known.get(ApiKey.LIST_TRANSACTIONS, -1) < needed:
            raise CommandFailed(f"the broker at {address} is too old to list transactions by that")
        return needed

    async def described(self, ids: Iterable[str]) -> dict[str, tuple[Transaction | None, int]]:
        """Each with its coordinator; None for an id that is not there."""
        from odradek.protocol.api.describe_transactions import DescribeTransactionsRequest

        found: dict[str, tuple[Transaction | None, int]] = {}
        for name in ids:
            request = DescribeTransactionsRequest(transactional_ids=[name])
            coordinator = -1

            async def ask(name: str = name, request: Any = request) -> Any:
                nonlocal coordinator
                coordinator = await self._coordinator(name)
                return await self.ask_broker(coordinator, request, version=0)

            answer = await self._settled(ask, _codes_of_transactions)
            (transaction,) = answer.transaction_states
            is_there = _name(transaction.error_code) != NOT_FOUND
            if is_there:
                _check(name, transaction.error_code)
            found[name] = (transaction if is_there else None), coordinator
        return found

    async def _coordinator(self, name: str) -> int:
        from odradek.protocol.api.find_coordinator import FindCoordinatorRequest

        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[name])

        async def ask() -> Any:
            anybody = next(iter(self.brokers))
            return await self.ask_broker(anybody, request, version=FIND_COORDINATOR_VERSION)

        answer = await self._settled(
            ask, lambda answer: [each.error_code for each in answer.coordinators]
        )
        (found,) = answer.coordinators
        _check(name, found.error_code)
        self.brokers.setdefault(found.node_id, Address(found.host, found.port))
        return int(found.node_id)

    async def producers(
        self, places: Iterable[Place], *, replica: int | None = None, tell: Tell = _stop
    ) -> dict[Place, list[Producer]]:
        """What each partition's leader remembers, or this replica of it.

        A partition that nobody tells of is left out, unless ``tell`` raises.
        """
        asked: defaultdict[int, list[Place]] = defaultdict(list)
        for place in places:
            try:
                asked[self.leader(place) if replica is None else replica].append(place)
            except CommandFailed as failure:
                tell(failure)
        found: dict[Place, list[Producer]] = {}
        for broker, some in asked.items():
            for begin in range(0, len(some), AT_ONCE):
                found |= await self._producers_at(broker, some[begin : begin + AT_ONCE], tell)
        return {place: found[place] for place in places if place in found}

    async def _producers_at(
        self, broker: int, places: list[Place], tell: Tell
    ) -> dict[Place, list[Producer]]:
        from odradek.protocol.api.describe_producers import DescribeProducersRequest

        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for place in places:
            numbers[place.topic].append(place.partition)
        topics = [
            DescribeProducersRequest.Topic(name=name, partition_indexes=some)
            for name, some in numbers.items()
        ]
        answer = await self.ask_broker(broker, DescribeProducersRequest(topics=topics), version=0)
        found = {}
        for topic in answer.topics:
            for line in topic.partitions:
                place = Place(topic.name, line.partition_index)
                if line.error_code:
                    tell(CommandFailed(f"{place}: {direct.reason(line.error_code)}"))
                else:
                    found[place] = line.active_producers
        return found

    async def _settled(
        self, ask: Callable[[], Awaitable[Answer]], codes: Callable[[Answer], Iterable[int]]
    ) -> Answer:
        """Once it is not what will pass, or the time is up."""
        import asyncio

        deadline = time.monotonic() + self._timeout_s
        while True:
            answer = await ask()
            if not any(_name(code) in PASSING for code in codes(answer)):
                return answer
            if time.monotonic() > deadline:
                return answer
            await asyncio.sleep(PAUSE_S)


def _codes_of_transactions(answer: DescribeTransactionsResponse) -> list[int]:
    return [each.error_code for each in answer.transaction_states]


def _name(code: int) -> str:
    from odradek.protocol.error_codes import ErrorCode

    return ErrorCode.of(code).name


def _check(what: str, code: int) -> None:
    if code:
        raise CommandFailed(f"{what}: {direct.reason(code)}")
