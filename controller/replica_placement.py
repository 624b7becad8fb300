"""On which brokers do the replicas of new partitions go?

First replicas go around the brokers, so that each leads as many partitions as any other.  The
others follow at a distance that grows by one each time around, so that what a broker leads has its
other replicas spread over all brokers, not on one neighbour.

    brokers 0 1 2 3 4, three replicas, from broker 0 at distance 1

    partition   0      1      2      3      4      5      6
    replicas    0 1 2  1 2 3  2 3 4  3 4 0  4 0 1  0 2 3  1 3 4

Where brokers have racks, they are gone around in turns, one of each rack, and a rack gets a second
replica of a partition only when all have one.

The same brokers, start and counts give what Kafka places, replica for replica.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice, zip_longest
from random import Random

from odradek.protocol.errors import InvalidPartitions, InvalidReplicationFactor, KafkaError

#: The rack of each broker that is alive; None if it does not say.
Racks = Mapping[int, str | None]


class RacksIncomplete(KafkaError):
    """Some brokers say where they are, and some do not; Kafka has no code for this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where placement begins; a topic that grows goes on where it stopped."""

    index: int  # among the brokers, of the first replica of partition 0
    shift: int  # of the others, beyond the next broker
    partition: int = 0

    @classmethod
    def drawn(cls, random: Random, racks: Racks) -> Start:
        return cls(index=random.randrange(len(racks)), shift=random.randrange(len(racks)))


def check_counts(racks: Racks, *, partitions: int, replication_factor: int) -> None:
    if partitions <= 0:
        raise InvalidPartitions(f"A topic has at least one partition, not {partitions}.")
    if replication_factor <= 0:
        raise InvalidReplicationFactor(
            f"A partition has at least one replica, not {replication_factor}."
        )
    if replication_factor > len(racks):
        raise InvalidReplicationFactor(
            f"Replication factor {replication_factor} needs as many brokers, and {len(racks)} "
            "are available."
        )


def placed_replicas(
    racks: Racks, start: Start, *, partitions: int, replication_factor: int
) -> dict[int, tuple[int, ...]]:
    """By partition, from ``start.partition`` on."""
    check_counts(racks, partitions=partitions, replication_factor=replication_factor)
    ring = _ring(racks)
    rack_count = len({rack for rack in racks.values() if rack is not None})
    shift = start.shift
    placed = {}
    for partition in range(start.partition, start.partition + partitions):
        if partition > 0 and partition % len(ring) == 0:
            shift += 1
        first = (start.index + partition) % len(ring)
        others = ring[first + 1 :] + ring[:first]
        replicas = [ring[first]]
        if replication_factor > 1:
            candidates = _turned(others, by=shift * max(rack_count, 1))
            chosen = _across_racks(ring[first], candidates, racks, rack_count)
            replicas += islice(chosen, replication_factor - 1)
        placed[partition] = tuple(replicas)
    return placed


def _ring(racks: Racks) -> list[int]:
    """In the order in which brokers get their turn."""
    brokers = sorted(racks)
    without = [broker for broker in brokers if racks[broker] is None]
    if len(without) == len(brokers):
        return brokers
    if without:
        raise RacksIncomplete(
            "Replicas cannot be placed across racks: no rack is known of broker "
            f"{', '.join(map(str, without))}."
        )
    in_rack: dict[str, list[int]] = {}
    for broker in brokers:
        in_rack.setdefault(racks[broker] or "", []).append(broker)
    # By UTF-16, as Java compares strings.
    names = sorted(in_rack, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    turns = chain.from_iterable(zip_longest(*(in_rack[name] for name in names)))
    return [broker for broker in turns if broker is not None]


def _turned(brokers: Sequence[int], *, by: int) -> Iterator[int]:
    """Around and around."""
    return (brokers[(by + step) % len(brokers)] for step in count())


def _across_racks(
    leader: int, candidates: Iterable[int], racks: Racks, rack_count: int
) -> Iterator[int]:
    """Brokers that have no replica yet, those in racks without one first."""
    taken = {leader}
    racks_taken = {racks[leader]}
    for broker in candidates:
        rack_is_free = racks[broker] not in racks_taken or len(racks_taken) >= rack_count
        if rack_is_free and broker not in taken:
            taken.add(broker)
            racks_taken.add(racks[broker])
            yield broker
