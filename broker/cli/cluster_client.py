"""A cluster as its operators see it: its brokers, its partitions, and its controller to be asked.

Over connections of our own, as confluent-kafka has no function for most of it; Kafka from 2.4 on
answers all of this.  Any broker tells who the controller is.  One that is not, or not any more,
says so: then it is looked up and asked again, until the time is up.
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

from odradek.broker.cli import client, direct
from odradek.broker.cli.direct import Address, Connections, NoAnswer
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.first_answer import first_answer
from odradek.broker.cli.partitions import Place

if TYPE_CHECKING:
    from odradek.protocol.schema import Message

METADATA_VERSION = 7
NOBODY = -1
PAUSE_S = 0.1
#: What a broker says that is not the controller.
PASSING = frozenset({"NOT_CONTROLLER"})


class Broker(NamedTuple):
    address: Address
    rack: str | None


class Partition(NamedTuple):
    """Who leads it, if anybody does; where it is, and where it is in sync."""

    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """What a broker knew when it was asked."""

    cluster_id: str | None
    controller: int | None
    brokers: Mapping[int, Broker]
    partitions: Mapping[Place, Partition]


Codes = Callable[[Any], Iterable[int]]
Work = Callable[[argparse.Namespace, "OperatedCluster"], Awaitable[int]]


def verb(work: Work, *, tool: str) -> client.Run:
    """A command that does this with the cluster; ``tool`` is Kafka's own that can do it too."""

    async def with_cluster(arguments: argparse.Namespace, connections: Connections) -> int:
        asked = OperatedCluster(connections, arguments.bootstrap, timeout_s=arguments.timeout)
        return await work(arguments, asked)

    def run(arguments: argparse.Namespace) -> int:
        return direct.run(arguments, partial(with_cluster, arguments), tool=tool)

    return client.client_command(run)


class OperatedCluster:
    """``bootstrap`` are the brokers to ask first, as they are written."""

    def __init__(self, connections: Connections, bootstrap: str, *, timeout_s: float) -> None:
        self._connections = connections
        self._known = dict.fromkeys(map(_address, bootstrap.split(",")))
        self._brokers: Mapping[int, Broker] = {}
        self._controller: int | None = None
        self.timeout_s = timeout_s

    async def picture(self, topics: Iterable[str] | None = None) -> Picture:
        """Of these topics, or of all; raises CommandFailed if one of them is not there."""
        from odradek.protocol.api.metadata import MetadataRequest

        asked = [MetadataRequest.Topic(name=name) for name in dict.fromkeys(topics or ())]
        request = MetadataRequest(
            topics=None if topics is None else asked, allow_auto_topic_creation=False
        )
        answer = await self.ask_anybody(request, version=METADATA_VERSION)
        self._brokers = {
            each.node_id: Broker(Address(each.host, each.port), each.rack)
            for each in answer.brokers
        }
        self._controller = _unless_nobody(answer.controller_id)
        return Picture(answer.cluster_id, self._controller, self._brokers, _partitions(answer))

    def until(self, deadline: float) -> OperatedCluster:
        """The same, with no more time than is left."""
        hurried = copy(self)
        hurried.timeout_s = min(self.timeout_s, max(0.0, deadline - time.monotonic()))
        return hurried

    async def ask_controller(self, request: Message, *, version: int, codes: Codes) -> Any:
        """Its answer; ``codes`` finds errors in one, so that a broker that is not it is known."""
        import asyncio

        failure: NoAnswer | None = None
        try:
            async with asyncio.timeout(self.timeout_s):
                while True:
                    try:
                        return await self._ask_controller(request, version, codes)
                    except NoAnswer as why:
                        failure = why
                    await asyncio.sleep(PAUSE_S)
                    await self.picture([])
        except TimeoutError as late:
            silent = f"broker {self._controller}, the controller, does not answer"
            raise failure or NoAnswer(f"{silent} in {round(self.timeout_s, 1):g} s") from late

    async def _ask_controller(self, request: Message, version: int, codes: Codes) -> Any:
        if not self._brokers:
            await self.picture([])
        if self._controller is None:
            raise NoAnswer("the cluster has no controller")
        answer = await self.ask_broker(self._controller, request, version=version)
        for code in codes(answer):
            if error_name(code) in PASSING:
                raise NoAnswer(f"broker {self._controller}: {direct.reason(code)}")
        return answer

    async def ask_broker(self, broker: int, request: Message, *, version: int) -> Any:
        import asyncio

        if broker not in self._brokers:
            raise NoAnswer(f"broker {broker}: there is no such broker")
        address = self._brokers[broker].address
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._connections.ask(address, request, version=version)
        except TimeoutError as late:
            silent = f"broker {broker} at {address} does not answer"
            raise NoAnswer(f"{silent} in {round(self.timeout_s, 1):g} s") from late

    async def ask_anybody(self, request: Message, *, version: int) -> Any:
        async def ask(address: Address) -> Any:
            answer = await self._connections.ask(address, request, version=version)
            # Who has answered is asked first the next time.
            self._known = {address: None} | self._known
            return answer

        addresses = [*self._known, *(each.address for each in self._brokers.values())]
        return await first_answer(ask, dict.fromkeys(addresses), timeout_s=self.timeout_s)


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """As requests name them."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for place in sorted(places):
        numbers[place.topic].append(place.partition)
    return dict(numbers)


def check(code: int, message: str | None = None, *, of: str) -> None:
    """Raises CommandFailed with what the cluster says."""
    if code:
        raise CommandFailed(f"{of}: {told(code, message)}")


def told(code: int, message: str | None) -> str:
    """An error, in the words of the broker if it had any."""
    return f"{error_name(code)}: {message}" if message else direct.reason(code)


def error_name(code: int) -> str:
    from odradek.protocol.error_codes import ErrorCode

    return ErrorCode.of(code).name


def _partitions(answer: Any) -> dict[Place, Partition]:
    found = {}
    for topic in answer.topics:
        check(topic.error_code, of=topic.name)
        for each in topic.partitions:
            found[Place(topic.name, each.partition_index)] = Partition(
                _unless_nobody(each.leader_id), tuple(each.replica_nodes), tuple(each.isr_nodes)
            )
    return dict(sorted(found.items()))


def _unless_nobody(broker: int) -> int | None:
    return None if broker == NOBODY else broker


def _address(written: str) -> Address:
    """Which has been looked at before (see client.py)."""
    host, _, port = written.strip().rpartition(":")
    return Address(host.strip("[]"), int(port))
