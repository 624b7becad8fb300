"""A member of a group, in a process of its own: polls, tells of what it got, and commits it.

    python -m tests.support.group_member_program LIBRARY ADDRESS OPTIONS

OPTIONS are a JSON object; see ``MemberOptions``.  Each line that it prints is an event in
JSON, with the time of the system's monotonic clock.  A line on its standard input says what to do:

    close                            leave the group and end
    topics a b                       subscribe anew
    commit TOPIC PARTITION OFFSET    as a member, whatever it has read
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tests.support.member_consumer import (
    LIBRARIES,
    MemberConsumer,
    MemberOptions,
    Offsets,
    Record,
    Told,
)


def main(library: str, address: str, options: MemberOptions) -> None:
    module, name = LIBRARIES[library]
    made = getattr(import_module(f"tests.support.{module}"), name)
    left = Uncommitted(is_kept=options.assignor == "cooperative")
    consumer: MemberConsumer = made(address, options, left.tell)
    consume(consumer, options, copier(address, options.copy_to), left)
    consumer.close()
    tell("closed")


class Uncommitted:
    """What was refused of a member that has the partitions still: it commits that again.

    Who rebalances cooperatively reads on meanwhile.  Its commits wait behind its JoinGroup, and are
    refused then, as of the generation before.  It keeps its place in what it keeps, so that nobody
    would read those records again, and commit them.  Who gives up everything reads them again.
    """

    def __init__(self, *, is_kept: bool) -> None:
        self._is_kept = is_kept
        self._owned: set[tuple[str, int]] = set()
        self._offsets: Offsets = {}

    def tell(self, event: str, **facts: Any) -> None:
        """What is told of partitions is noted as well."""
        tell(event, **facts)
        places = {(topic, partition) for topic, partition in facts.get("partitions", ())}
        self._owned -= places
        for place in places & self._offsets.keys():
            del self._offsets[place]
        if event == "assigned":
            self._owned |= places

    def note(self, offsets: Offsets) -> None:
        if self._is_kept:
            owned = {place: offset for place, offset in offsets.items() if place in self._owned}
            self._offsets = owned | self._offsets

    def with_more(self, offsets: Offsets) -> Offsets:
        """All that is to be committed; what is refused of it is noted again."""
        before, self._offsets = self._offsets, {}
        return before | offsets


def consume(
    consumer: MemberConsumer,
    options: MemberOptions,
    copy: Callable[[list[Record]], None],
    left: Uncommitted,
) -> None:
    """Until it is told to close."""
    received = orders()
    commit = consumer.commit if options.is_commit_awaited else consumer.commit_later
    while True:
        match [] if received.empty() else received.get():
            case ["close"]:
                return
            case ["topics", *topics]:
                consumer.subscribe(topics)
            case ["commit", topic, partition, offset]:
                offsets = {(topic, int(partition)): int(offset)}
                consumer.commit(offsets, telling_of(offsets))
        records = consumer.poll()
        if records:
            copy(records)
            tell("records", records=records)
        offsets = left.with_more(offsets_behind(records))
        if offsets:
            commit(offsets, telling_of(offsets, refused=left.note))


def orders() -> queue.SimpleQueue[list[str]]:
    """What is written to our standard input; its end is an order to close."""
    received: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            received.put(line.split())
        received.put(["close"])

    threading.Thread(target=read, daemon=True).start()
    return received


def tell(event: str, **facts: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, "at": time.monotonic(), **facts}) + "\n")
    sys.stdout.flush()


def telling_of(offsets: Offsets, refused: Callable[[Offsets], None] = lambda _: None) -> Told:
    """Tells what becomes of a commit that begins now."""
    flat = [[*place, offset] for place, offset in offsets.items()]
    begun_at = time.monotonic()

    def told(refusal: str | None) -> None:
        if refusal is None:
            tell("committed", offsets=flat, begun_at=begun_at)
        else:
            tell("refused", offsets=flat, error=refusal)
            refused(offsets)

    return told


def offsets_behind(records: list[Record]) -> Offsets:
    offsets: Offsets = {}
    for topic, partition, offset, _ in records:
        offsets[topic, partition] = max(offset + 1, offsets.get((topic, partition), 0))
    return offsets


def copier(address: str, topic: str | None) -> Callable[[list[Record]], None]:
    """Writes all it is given to a topic, and waits until it is there."""
    if topic is None:
        return lambda records: None
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 1})

    def copy(records: list[Record]) -> None:
        for _, partition, _, value in records:
            producer.produce(topic, value.encode(), partition=partition)
        assert producer.flush(30) == 0

    return copy


if __name__ == "__main__":
    main(*sys.argv[1:3], MemberOptions(**json.loads(sys.argv[3])))
