"""What producers were told and consumers saw, and what of it no broker may ever show.

    history = History()
    history.sent("producer", PARTITION, b"1")
    history.acked(PARTITION, 0, b"1")
    history.polled("consumer", PARTITION, 0, b"1")
    check(history)

A value is sent once, and so names its record.  One that was neither acked nor aborted may have been
written or not.  Polling must go on until the end of every partition, when all trouble is over:
what is acked and was not seen by then counts as gone.

Owner: none while it is checked; each producer and consumer is to tell it from one thread.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from odradek.protocol.types import TopicPartition

TOLD_MAX = 20


class Kind(StrEnum):
    LOST_WRITE = "lost-write"  # acked, never polled, though something behind it was
    UNSEEN = "unseen"  # acked and never polled
    DUPLICATE = "duplicate"  # a value at more than one offset
    INCONSISTENT_OFFSETS = "inconsistent-offsets"  # an offset with more than one value
    ABORTED_READ = "G1a"  # the value of an aborted send was polled
    NONMONOTONIC_POLL = "nonmonotonic-poll"  # a consumer stepped back
    POLL_SKIP = "poll-skip"  # a consumer passed over a record
    REORDERED = "reordered"  # the values of a producer are not in the order of sending


class Anomaly(NamedTuple):
    kind: Kind
    partition: TopicPartition
    what: str


class Place(NamedTuple):
    """Where a record is."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Polled:
    offset: int
    value: bytes | None


class History:
    """All that happened, by whom and where."""

    def __init__(self) -> None:
        self.sends: defaultdict[tuple[str, TopicPartition], list[bytes]] = defaultdict(list)
        self.acks: list[tuple[Place, bytes]] = []
        self.acks_of_no_place: list[tuple[TopicPartition, bytes]] = []
        self.aborts: set[bytes] = set()
        #: A list for each time that the consumer was given its partitions.
        self.polls: defaultdict[tuple[str, TopicPartition], list[list[Polled]]] = defaultdict(
            lambda: [[]]
        )

    def sent(self, producer: str, partition: TopicPartition, value: bytes) -> None:
        self.sends[producer, partition].append(value)

    def acked(self, partition: TopicPartition, offset: int | None, value: bytes) -> None:
        """None: it is there, and the producer was not told where."""
        if offset is None:
            self.acks_of_no_place.append((partition, value))
        else:
            self.acks.append((Place(partition, offset), value))

    def aborted(self, value: bytes) -> None:
        """It is certain that it was not to be written: nobody may read it."""
        self.aborts.add(value)

    def polled(
        self, consumer: str, partition: TopicPartition, offset: int, value: bytes | None
    ) -> None:
        self.polls[consumer, partition][-1].append(Polled(offset, value))

    def reassigned(self, consumer: str) -> None:
        """From now on it may begin anywhere, as after a rebalance."""
        for (name, _), assignments in self.polls.items():
            if name == consumer:
                assignments.append([])

    def seen(self) -> Iterator[tuple[Place, bytes | None]]:
        """What was polled, by whomever."""
        for (_, partition), assignments in self.polls.items():
            for polled in assignments:
                for each in polled:
                    yield Place(partition, each.offset), each.value


def check(history: History, *, is_idempotent: bool = True) -> None:
    found = anomalies(history, is_idempotent=is_idempotent)
    told = "\n".join(f"{each.kind} in {each.partition}: {each.what}" for each in found[:TOLD_MAX])
    assert not found, f"{len(found)} anomalies:\n{told}"


def anomalies(history: History, *, is_idempotent: bool = True) -> list[Anomaly]:
    """Without idempotence, values may be written twice, and in another order."""
    found = [
        *_inconsistent_offsets(history),
        *_missing(history),
        *_aborted_reads(history),
        *_unsteady_polls(history),
    ]
    if is_idempotent:
        found += [*_duplicates(history), *_reordered(history)]
    return found


def _inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    values: defaultdict[Place, set[bytes | None]] = defaultdict(set)
    for place, value in (*history.acks, *history.seen()):
        values[place].add(value)
    for place, found in values.items():
        if len(found) > 1:
            what = f"offset {place.offset} is {_listed(found)}"
            yield Anomaly(Kind.INCONSISTENT_OFFSETS, place.partition, what)


def _missing(history: History) -> Iterator[Anomaly]:
    seen = {place for place, _ in history.seen()}
    furthest: dict[TopicPartition, int] = {}
    for partition, offset in seen:
        furthest[partition] = max(offset, furthest.get(partition, -1))
    for place, value in history.acks:
        if place not in seen:
            is_behind = furthest.get(place.partition, -1) > place.offset
            kind = Kind.LOST_WRITE if is_behind else Kind.UNSEEN
            yield Anomaly(kind, place.partition, f"{value!r}, acked at {place.offset}")
    values = {(place.partition, value) for place, value in history.seen()}
    for partition, value in history.acks_of_no_place:
        if (partition, value) not in values:
            yield Anomaly(Kind.UNSEEN, partition, f"{value!r}, acked somewhere")


def _aborted_reads(history: History) -> Iterator[Anomaly]:
    for place, value in history.seen():
        if value in history.aborts:
            what = f"{value!r} was polled at {place.offset}"
            yield Anomaly(Kind.ABORTED_READ, place.partition, what)


def _unsteady_polls(history: History) -> Iterator[Anomaly]:
    known = _known_offsets(history)
    for (consumer, partition), assignments in history.polls.items():
        for polled in assignments:
            for before, after in itertools.pairwise(polled):
                what = f"{consumer} polled {after.offset} after {before.offset}"
                if after.offset <= before.offset:
                    yield Anomaly(Kind.NONMONOTONIC_POLL, partition, what)
                elif _lie_between(known[partition], before.offset, after.offset):
                    yield Anomaly(Kind.POLL_SKIP, partition, what)


def _known_offsets(history: History) -> dict[TopicPartition, list[int]]:
    """In order; what nobody could read, such as the end of a transaction, is not among them."""
    found: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    for place, value in (*history.acks, *history.seen()):
        if value not in history.aborts:
            found[place.partition].add(place.offset)
    return {partition: sorted(offsets) for partition, offsets in found.items()}


def _lie_between(offsets: list[int], low: int, high: int) -> bool:
    return bisect_right(offsets, low) < bisect_left(offsets, high)


def _duplicates(history: History) -> Iterator[Anomaly]:
    sent = {value for values in history.sends.values() for value in values}
    for value, places in _places(history).items():
        if len(places) > 1 and value in sent:
            told = ", ".join(f"{each.partition} {each.offset}" for each in sorted(places))
            yield Anomaly(Kind.DUPLICATE, min(places).partition, f"{value!r} is at {told}")


def _reordered(history: History) -> Iterator[Anomaly]:
    places = _places(history)
    for (producer, partition), values in history.sends.items():
        offsets = [min(places[value]).offset for value in values if value in places]
        for before, after in itertools.pairwise(offsets):
            if after < before:
                what = f"{producer} sent what is at {after} after what is at {before}"
                yield Anomaly(Kind.REORDERED, partition, what)


def _places(history: History) -> dict[bytes | None, set[Place]]:
    found: defaultdict[bytes | None, set[Place]] = defaultdict(set)
    for place, value in (*history.acks, *history.seen()):
        found[value].add(place)
    return found


def _listed(found: Iterable[object]) -> str:
    return ", ".join(sorted(map(repr, found)))
