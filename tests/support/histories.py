"""What producers were told and consumers saw, and what of it no broker may ever show.

    history = History()
    history.sent("producer", PARTITION, b"1")
    history.acked(PARTITION, 0, b"1")
    history.polled("consumer", PARTITION, 0, b"1")
    history.final("consumer", PARTITION.topic)
    check(history)

A value is sent once, and so names its record.  One that was neither acked nor aborted may have been
written or not.  All consumers are read_committed.  When all trouble is over, somebody has to read
once more, from the start of every partition to its end: what was acked, or polled before, and is
not shown to such a final consumer is gone, whoever has seen it once.

Owner: none while it is checked; each producer and consumer is to tell it from one thread.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from odradek.protocol.types import TopicPartition

TOLD_MAX = 20


class Kind(StrEnum):
    LOST_WRITE = "lost-write"  # acked, never polled, though something behind it was
    UNSEEN = "unseen"  # acked, or polled once, and not polled in the end
    DUPLICATE = "duplicate"  # a value at more than one offset
    INCONSISTENT_OFFSETS = "inconsistent-offsets"  # an offset with more than one value
    ABORTED_READ = "G1a"  # the value of an aborted send was polled
    CIRCULAR_FLOW = "G1c"  # transactions polled what one another sent
    PRECOMMITTED_READ = "precommitted-read"  # a transaction polled what it sent itself
    NONMONOTONIC_POLL = "nonmonotonic-poll"  # a consumer stepped back
    POLL_SKIP = "poll-skip"  # a consumer passed over a record
    INTERNAL_NONMONOTONIC_POLL = "int-nonmonotonic-poll"  # so it did within one transaction
    INTERNAL_POLL_SKIP = "int-poll-skip"
    REORDERED = "reordered"  # the values of a producer are not in the order of sending
    NEVER_SENT = "never-sent"  # a value was polled that nobody sent
    WRONG_PARTITION = "wrong-partition"  # a value was polled where nobody sent it to


#: Whether it was within one transaction.
STEPS_BACK = {False: Kind.NONMONOTONIC_POLL, True: Kind.INTERNAL_NONMONOTONIC_POLL}
SKIPS = {False: Kind.POLL_SKIP, True: Kind.INTERNAL_POLL_SKIP}


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
    #: In which it was polled, if in any.
    transaction: str | None = None


@dataclass(slots=True)
class Reading:
    """What a consumer polled one after the other; ``start`` is None if it began anywhere."""

    start: int | None = None
    polled: list[Polled] = field(default_factory=list)


class History:
    """All that happened, by whom and where."""

    def __init__(self) -> None:
        self.sends: defaultdict[tuple[str, TopicPartition], list[bytes]] = defaultdict(list)
        self.acks: list[tuple[Place, bytes]] = []
        self.acks_of_no_place: list[tuple[TopicPartition, bytes]] = []
        self.aborts: set[bytes] = set()
        self.others: set[tuple[TopicPartition, bytes]] = set()
        #: The transaction that sent it, by value.
        self.senders: dict[bytes | None, str] = {}
        #: One for each time that the consumer was given its partitions.
        self.polls: defaultdict[tuple[str, TopicPartition], list[Reading]] = defaultdict(
            lambda: [Reading()]
        )
        #: With the topic that each has read.
        self.finals: list[tuple[str, str]] = []
        self.starts: dict[TopicPartition, int] = {}

    def sent(self, producer: str, partition: TopicPartition, value: bytes) -> None:
        self.sends[producer, partition].append(value)

    def sent_beside(self, partition: TopicPartition, value: bytes) -> None:
        """By nobody whose values are there once, and in order."""
        self.others.add((partition, value))

    def sent_in(self, transaction: str, value: bytes) -> None:
        """One of those that were sent."""
        self.senders[value] = transaction

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
        self,
        consumer: str,
        partition: TopicPartition,
        offset: int,
        value: bytes | None,
        transaction: str | None = None,
    ) -> None:
        polled = Polled(offset, value, transaction)
        self.polls[consumer, partition][-1].polled.append(polled)

    def began(self, consumer: str, partition: TopicPartition, offset: int) -> None:
        """From now on it is to poll what is there from this offset on."""
        self.polls[consumer, partition].append(Reading(offset))

    def reassigned(self, consumer: str) -> None:
        """From now on it may begin anywhere, as after a rebalance."""
        for (name, _), readings in self.polls.items():
            if name == consumer:
                readings.append(Reading())

    def final(self, consumer: str, topic: str) -> None:
        """When all trouble was over it polled each partition of it, from the start to the end."""
        self.finals.append((consumer, topic))

    def starts_at(self, partition: TopicPartition, offset: int) -> None:
        """By retention or by request: what is before it may be gone."""
        self.starts[partition] = offset

    def is_to_be_there(self, place: Place, value: bytes | None) -> bool:
        return place.offset >= self.starts.get(place.partition, 0) and value not in self.aborts

    def seen(self) -> Iterator[tuple[Place, bytes | None]]:
        """What was polled, by whomever."""
        for _, place, polled in self.polls_of_all():
            yield place, polled.value

    def polls_of_all(self) -> Iterator[tuple[str, Place, Polled]]:
        for (consumer, partition), readings in self.polls.items():
            for reading in readings:
                for each in reading.polled:
                    yield consumer, Place(partition, each.offset), each


def check(history: History, *, is_idempotent: bool = True) -> None:
    acked = {place.partition.topic for place, _ in history.acks}
    acked |= {partition.topic for partition, _ in history.acks_of_no_place}
    reread = {topic for _, topic in history.finals}
    assert reread, "nobody has read again in the end"
    assert acked <= reread, f"nobody has read {acked - reread} again in the end"
    found = anomalies(history, is_idempotent=is_idempotent)
    told = "\n".join(f"{each.kind} in {each.partition}: {each.what}" for each in found[:TOLD_MAX])
    assert not found, f"{len(found)} anomalies:\n{told}"


def anomalies(history: History, *, is_idempotent: bool = True) -> list[Anomaly]:
    """Without idempotence, values may be written twice, and in another order."""
    found = [
        *_inconsistent_offsets(history),
        *_missing(history),
        *_missing_in_the_end(history),
        *_unsent(history),
        *_aborted_reads(history),
        *_circular_flows(history),
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
    """What nobody polled, ever."""
    seen = {place for place, _ in history.seen()}
    furthest: dict[TopicPartition, int] = {}
    for partition, offset in seen:
        furthest[partition] = max(offset, furthest.get(partition, -1))
    for place, value in history.acks:
        if place not in seen and history.is_to_be_there(place, value):
            is_behind = furthest.get(place.partition, -1) > place.offset
            kind = Kind.LOST_WRITE if is_behind else Kind.UNSEEN
            yield Anomaly(kind, place.partition, f"{value!r}, acked at {place.offset}")
    values = {(place.partition, value) for place, value in history.seen()}
    for partition, value in history.acks_of_no_place:
        if (partition, value) not in values and value not in history.aborts:
            yield Anomaly(Kind.UNSEEN, partition, f"{value!r}, acked somewhere")


def _missing_in_the_end(history: History) -> Iterator[Anomaly]:
    """What somebody polled, but not all who polled in the end."""
    seen = {place: value for place, value in history.seen() if history.is_to_be_there(place, value)}
    for final, topic in history.finals:
        found = {place for consumer, place, _ in history.polls_of_all() if consumer == final}
        for place in sorted(seen.keys() - found):
            if place.partition.topic == topic:
                what = f"{seen[place]!r}, once polled at {place.offset}, is not there for {final}"
                yield Anomaly(Kind.UNSEEN, place.partition, what)


def _unsent(history: History) -> Iterator[Anomaly]:
    partitions: defaultdict[bytes | None, set[TopicPartition]] = defaultdict(set)
    for (_, partition), values in history.sends.items():
        for value in values:
            partitions[value].add(partition)
    for partition, value in history.others:
        partitions[value].add(partition)
    for place, polled in dict.fromkeys(history.seen()):
        if polled not in partitions:
            kind = Kind.NEVER_SENT
        elif place.partition not in partitions[polled]:
            kind = Kind.WRONG_PARTITION
        else:
            continue
        yield Anomaly(kind, place.partition, f"{polled!r} was polled at {place.offset}")


def _aborted_reads(history: History) -> Iterator[Anomaly]:
    for place, value in history.seen():
        if value in history.aborts:
            what = f"{value!r} was polled at {place.offset}"
            yield Anomaly(Kind.ABORTED_READ, place.partition, what)


def _circular_flows(history: History) -> Iterator[Anomaly]:
    """Of information, between transactions or within one; by what they polled alone."""
    flows: defaultdict[str, set[str]] = defaultdict(set)
    where: dict[str, TopicPartition] = {}
    for _, place, polled in history.polls_of_all():
        sender = history.senders.get(polled.value)
        if sender is None or polled.transaction is None:
            continue
        if sender == polled.transaction:
            what = f"{sender} polled what it sent itself, {polled.value!r}, at {place.offset}"
            yield Anomaly(Kind.PRECOMMITTED_READ, place.partition, what)
        else:
            flows[polled.transaction].add(sender)
            where[polled.transaction] = place.partition
    try:
        TopologicalSorter(flows).prepare()
    except CycleError as found:
        _, cycle = found.args
        yield Anomaly(Kind.CIRCULAR_FLOW, where[cycle[0]], " to ".join(cycle))


def _unsteady_polls(history: History) -> Iterator[Anomaly]:
    known = _known_offsets(history)
    for (consumer, partition), readings in history.polls.items():
        for reading in readings:
            for before, after in itertools.pairwise(_steps(reading)):
                is_internal = before.transaction == after.transaction is not None
                what = f"{consumer} polled {after.offset} after {before.offset}"
                if after.offset <= before.offset:
                    yield Anomaly(STEPS_BACK[is_internal], partition, what)
                elif _lie_between(known[partition], before.offset, after.offset):
                    yield Anomaly(SKIPS[is_internal], partition, what)


def _steps(reading: Reading) -> Iterator[Polled]:
    """From what is before its start, if that is known."""
    if reading.start is not None:
        yield Polled(reading.start - 1, None)
    yield from reading.polled


def _known_offsets(history: History) -> Mapping[TopicPartition, list[int]]:
    """In order; what nobody could read, such as the end of a transaction, is not among them."""
    found: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    for place, value in (*history.acks, *history.seen()):
        if history.is_to_be_there(place, value):
            found[place.partition].add(place.offset)
    return defaultdict(list, {where: sorted(offsets) for where, offsets in found.items()})


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
