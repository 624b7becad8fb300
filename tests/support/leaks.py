"""Nothing that a fault began is left when it is over: each broker has what its roles explain.

    tasks         those of every broker; the controller's, one for each broker; one for each leader
                  that it fetches from
    outgoing      one for each of these tasks that has a peer; and to each other broker one for
                  markers, one for verifications, and one for what it asks of the controller
    connections   those that others have to it, and no more: clients are gone
    waiting       its followers, each with one request
    descriptors   one for each connection, for ZooKeeper and for each file of a segment; besides,
                  what it had when it was started

Owner: the thread of the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odradek.protocol.api_keys import ApiKey
from tests.support.broker_process import BrokerProcess
from tests.support.group_members import wait_until
from tests.support.in_hand import Held, held_by
from tests.support.wire_client import call

OF_ALL = (
    "_serve",
    "checkpoints",
    "compaction",
    "config-changes",
    "controller-events",
    "flush",
    "in-sync replicas",
    "offset expiry",
    "producer expiry",
    "removal",
    "retention",
    "transaction timeouts",
    "transactional id expiry",
)
ZOOKEEPER = 1
#: For each process that it has started since: its ends of a socket and of two pipes.
PER_CHILD = 3
#: For all of them: where they read from when there is nothing to be read.
NOTHING_TO_READ = 1


class Leaks:
    """Made when the brokers have just been started."""

    def __init__(self, brokers: Sequence[BrokerProcess]) -> None:
        self._brokers = brokers
        self._at_first = [held_by(each) for each in brokers]

    def include_another(self) -> None:
        """The last of the brokers, which was not there yet, has just been started."""
        self._at_first.append(held_by(self._brokers[-1]))

    def check(self) -> None:
        """When all brokers are there, and clients are gone, or about to be."""
        wait_until(lambda: not self._unexplained(), or_else=self._unexplained)

    def _unexplained(self) -> list[str]:
        metadata = call(self._brokers[0].address, ApiKey.METADATA, 7, topics=None)
        held = dict(enumerate(map(held_by, self._brokers)))
        return [
            f"broker {number} {each}"
            for number in held
            for each in (
                *self._roles(number, held, metadata),
                *_connections(number, held),
                *self._descriptors(number, held[number]),
            )
        ]

    def _roles(self, number: int, held: Mapping[int, Held], metadata: Any) -> Iterator[str]:
        tasks, outgoing = _as_tasks(held[number].tasks), held[number].outgoing
        controller = metadata.controller_id
        links = _links(number, held, metadata)
        explained = Counter(OF_ALL) + links + self._balancing(number, controller)
        if tasks != explained:
            yield f"has tasks that it should not have, or, below 0, not: {_less(tasks, explained)}"
        if not outgoing <= links + _now_and_then(number, held, controller):
            yield f"is connected for {dict(outgoing)}"

    def _descriptors(self, number: int, own: Held) -> Iterator[str]:
        files, at_first = own.segment_files, self._at_first[number]
        strange = [each for each in files if files[each] > 1 or each.endswith(" (deleted)")]
        if strange:
            yield f"has files open that are gone, or more than once: {strange}"
        since = max(0, own.children - at_first.children)
        if own.others > at_first.others + PER_CHILD * since + NOTHING_TO_READ:
            yield f"has {own.others} other descriptors, {at_first.others} of them at first"

    def _balancing(self, number: int, controller: int) -> Counter[str]:
        is_balanced = self._brokers[number].setting("auto.leader.rebalance.enable", "true")
        is_controller = number == controller
        return Counter(["controller-balance"] * (is_controller and is_balanced == "true"))


def _links(number: int, held: Mapping[int, Held], metadata: Any) -> Counter[str]:
    """To whom it is linked for as long as its roles are what they are."""
    leaders = {
        partition.leader_id
        for topic in metadata.topics
        for partition in topic.partitions
        if number in partition.replica_nodes and partition.leader_id not in (number, -1)
    }
    links = [f"fetches from broker {each}" for each in leaders]
    if number == metadata.controller_id:
        links += [f"controller to broker {each}" for each in held]
    return Counter(links)


def _now_and_then(number: int, held: Mapping[int, Held], controller: int) -> Counter[str]:
    others = [each for each in held if each != number]
    links = [f"markers to broker {each}" for each in others]
    links += [f"verifications by broker {each}" for each in others]
    return Counter([*links, f"requests to controller {controller}"])


def _connections(number: int, held: Mapping[int, Held]) -> Iterator[str]:
    own = held[number]
    came, went = own.connections.total(), own.outgoing.total() + ZOOKEEPER
    from_brokers = sum(_to(number, each) for each in held.values())
    if came != from_brokers:
        yield f"has connections {dict(own.connections)}, {from_brokers} of them of brokers"
    if (own.accepted, own.connected) != (came, went):
        yield f"has {own.accepted} and {own.connected} sockets, and tells of {came} and {went}"
    followers = sum(each.tasks[f"fetches from broker {number}"] for each in held.values())
    if own.requests > followers or not all(
        Counter(each) <= Counter(followers=followers) for each in own.waiting.values()
    ):
        yield f"has {own.requests} requests, who wait at {own.waiting}"


def _to(broker: int, held: Held) -> int:
    """How many connections to it another has, or it has itself."""
    return sum(count for name, count in held.outgoing.items() if name.endswith(f" {broker}"))


def _as_tasks(tasks: Counter[str]) -> Counter[str]:
    """Named as their connections are."""
    return Counter({name.replace("-to-broker-", " to broker "): n for name, n in tasks.items()})


def _less(some: Counter[str], others: Counter[str]) -> dict[str, int]:
    return {name: some[name] - others[name] for name in some | others if some[name] != others[name]}
