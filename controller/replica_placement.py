"""Assignment of the replicas of new partitions to brokers.  Kafka: AdminUtils.

The first replicas are assigned round-robin, which gives each broker equally many leaders.  The
other replicas follow at a shift that grows by one after each round, which spreads the followers of
one leader over all brokers instead of one neighbour.

    brokers 0 1 2 3 4, three replicas, start index 0, replica shift 0

    partition   0      1      2      3      4      5      6
    replicas    0 1 2  1 2 3  2 3 4  3 4 0  4 0 1  0 2 3  1 3 4

If brokers have racks, the round-robin order alternates between racks.  A rack gets a second replica
of a partition only when every rack has one.

For the same brokers, start and counts the result equals Kafka's, replica for replica.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice, zip_longest
from random import Random

from odradek.protocol.errors import InvalidPartitions, InvalidReplicationFactor, KafkaError

#: The rack of each live broker; None if the broker has no rack.
BrokerRacks = Mapping[int, str | None]


class IncompleteRackInfo(KafkaError):
    """Only some brokers have a rack; Kafka has no error code for this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementStart:
    """Where the assignment starts; new partitions of a topic continue where the topic ends."""

    start_index: int  # index in the broker list, for the first replica of partition 0
    replica_shift: int  # shift of the other replicas beyond the next broker
    start_partition: int = 0

    @classmethod
    def draw(cls, random: Random, racks: BrokerRacks) -> PlacementStart:
        return cls(
            start_index=random.randrange(len(racks)), replica_shift=random.randrange(len(racks))
        )


def check_counts(racks: BrokerRacks, *, partition_count: int, replication_factor: int) -> None:
    if partition_count <= 0:
        raise InvalidPartitions(
            f"Number of partitions must be larger than 0, but is {partition_count}."
        )
    if replication_factor <= 0:
        raise InvalidReplicationFactor(
            f"Replication factor must be larger than 0, but is {replication_factor}."
        )
    if replication_factor > len(racks):
        raise InvalidReplicationFactor(
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}."
        )


def assign_replicas_to_brokers(
    racks: BrokerRacks, start: PlacementStart, *, partition_count: int, replication_factor: int
) -> dict[int, tuple[int, ...]]:
    """Return the replicas of each partition, from ``start.start_partition`` on."""
    check_counts(racks, partition_count=partition_count, replication_factor=replication_factor)
    ring = _rack_alternated_brokers(racks)
    rack_count = len({rack for rack in racks.values() if rack is not None})
    shift = start.replica_shift
    assignments = {}
    for partition in range(start.start_partition, start.start_partition + partition_count):
        if partition > 0 and partition % len(ring) == 0:
            shift += 1
        first = (start.start_index + partition) % len(ring)
        others = ring[first + 1 :] + ring[:first]
        replicas = [ring[first]]
        if replication_factor > 1:
            candidates = _rotate(others, shift=shift * max(rack_count, 1))
            chosen = _spread_across_racks(ring[first], candidates, racks, rack_count)
            replicas += islice(chosen, replication_factor - 1)
        assignments[partition] = tuple(replicas)
    return assignments


def _rack_alternated_brokers(racks: BrokerRacks) -> list[int]:
    """Return the brokers in round-robin order, alternating between racks."""
    brokers = sorted(racks)
    brokers_without_rack = [broker for broker in brokers if racks[broker] is None]
    if len(brokers_without_rack) == len(brokers):
        return brokers
    if brokers_without_rack:
        raise IncompleteRackInfo(
            "Not all brokers have rack information: no rack is set for broker "
            f"{', '.join(map(str, brokers_without_rack))}."
        )
    brokers_by_rack: dict[str, list[int]] = {}
    for broker in brokers:
        brokers_by_rack.setdefault(racks[broker] or "", []).append(broker)
    # Sort by UTF-16 code units, as Java compares strings.
    names = sorted(brokers_by_rack, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    alternated = chain.from_iterable(zip_longest(*(brokers_by_rack[name] for name in names)))
    return [broker for broker in alternated if broker is not None]


def _rotate(brokers: Sequence[int], *, shift: int) -> Iterator[int]:
    """Iterate over the brokers endlessly, starting at ``shift``."""
    return (brokers[(shift + step) % len(brokers)] for step in count())


def _spread_across_racks(
    leader: int, candidates: Iterable[int], racks: BrokerRacks, rack_count: int
) -> Iterator[int]:
    """Yield brokers without a replica of the partition, racks without one first."""
    assigned = {leader}
    used_racks = {racks[leader]}
    for broker in candidates:
        is_rack_available = racks[broker] not in used_racks or len(used_racks) >= rack_count
        if is_rack_available and broker not in assigned:
            assigned.add(broker)
            used_racks.add(racks[broker])
            yield broker
