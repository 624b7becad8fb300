"""A topic that copiers copy in transactions, perhaps by way of others, fed and read all the while.

    with CopyRun(broker.address, [crew], partitions=2) as run:
        run.feed()
        crew.present[0].kill()
        run.man()
        run.finish()
        run.check()

The readers are there from the beginning: whatever of a transaction is shown too early, or though it
was aborted, they have seen.

Owner: the thread of the test.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

from confluent_kafka import Producer

from odradek.protocol.types import TopicPartition
from tests.support.copier_program import ABORTED, COPIED
from tests.support.copiers import Copier, Crew
from tests.support.histories import History, check
from tests.support.persistent_load import RECONNECT, PersistentConsumer, Silent

FLUSH_TIMEOUT_S = 30
FINISH_S = 90
CATCH_UP_S = 30
#: Less than this is not left to be copied while the run goes on.
BACKLOG = 200
FEEDER, READER, LATE_READER = "feeder", "reader", "late reader"


class CopyRun:
    """Each of the crews copies what the one before it has written."""

    def __init__(self, address: str, crews: Sequence[Crew], *, partitions: int) -> None:
        self._address = address
        self._partitions = partitions
        self._source, self._target = crews[0].posts[0].source, crews[-1].posts[0].target
        self.crews = crews
        self.committed = self._reader("read_committed")
        self.uncommitted = self._reader("read_uncommitted")
        #: By partition, in the order of sending.
        self.fed: list[list[bytes]] = [[] for _ in range(partitions)]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.feed()
        for reader in (self.committed, self.uncommitted):
            reader.start()
        for crew in self.crews:
            self._stack.enter_context(crew)
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()
        for reader in (self.committed, self.uncommitted):
            reader.stop()

    def _reader(self, isolation: str) -> PersistentConsumer:
        more = {"isolation.level": isolation}
        return PersistentConsumer(self._address, self._target, partitions=self._partitions, **more)

    @property
    def count(self) -> int:
        return sum(map(len, self.fed))

    def feed(self) -> None:
        """As much as is needed for the copiers to be busy; while the broker is there."""
        wanted = self.committed.count + 2 * BACKLOG - self.count
        if wanted < BACKLOG:
            return
        producer = Producer(
            {"bootstrap.servers": self._address, "enable.idempotence": True, **RECONNECT},
            logger=Silent(),
        )
        for _ in range(wanted):
            partition = self.count % self._partitions
            value = f"{self._source} {self.count}".encode()
            producer.produce(self._source, value, partition=partition)
            self.fed[partition].append(value)
        assert producer.flush(FLUSH_TIMEOUT_S) == 0

    def man(self) -> None:
        for crew in self.crews:
            crew.man()

    def finish(self) -> None:
        """Until all has been copied, by whoever must come for it."""
        deadline = time.monotonic() + FINISH_S
        while self.committed.count < self.count and time.monotonic() < deadline:
            self.man()
            time.sleep(0.05)

    def check(self) -> None:
        """The copy is the source, whoever looks at it, and whenever."""
        self.committed.stop()
        expected = [[COPIED * len(self.crews) + value for value in some] for some in self.fed]
        late = self.committed.again([value for values in expected for value in values])
        history = History()
        self._tell_what_was_sent(history)
        for number, crew in enumerate(self.crews):
            for place, copier in enumerate(crew.everybody):
                _tell_of_transactions(history, copier, f"copier {place} of crew {number}")
        for name, reader in ((READER, self.committed), (LATE_READER, late)):
            assert reader.failures == []
            reader.tell(history, name)
        history.final(LATE_READER, self._target)
        check(history)
        for reader in (self.committed, late):
            copied = [[value for _, value in reader.found[n]] for n in range(self._partitions)]
            assert copied == expected

    def _tell_what_was_sent(self, history: History) -> None:
        """To the source, and, but for what is aborted, to whatever it is copied to."""
        topics = [self._source, *(crew.posts[0].target for crew in self.crews)]
        for copies, topic in enumerate(topics):
            for number, values in enumerate(self.fed):
                for value in values:
                    history.sent(FEEDER, TopicPartition(topic, number), COPIED * copies + value)

    def __str__(self) -> str:
        last = [copier.events[-2:] for crew in self.crews for copier in crew.present]
        seen = f"{self.committed.count} seen, {self.uncommitted.count} with what is not committed"
        return f"{self._target}: {self.count} fed, {seen}; {last}"

    def aborted_that_were_seen(self) -> int:
        """By the reader for which nothing needs to be committed."""
        seen = [value for found in self.uncommitted.found.values() for _, value in found]
        return sum(value is not None and value.startswith(ABORTED) for value in seen)


def _tell_of_transactions(history: History, copier: Copier, name: str) -> None:
    """What it polled and sent in those whose end it knows; each may begin anywhere."""
    ended = {"copied": COPIED, "aborted": ABORTED}
    options = copier.options
    events = [each for each in copier.events if each["event"] in ended]
    for number, event in enumerate(events):
        transaction = f"transaction {number} of {name}"
        history.reassigned(name)
        for partition, offset, text in event["polled"]:
            value, place = text.encode(), TopicPartition(options.source, partition)
            history.polled(name, place, offset, value, transaction)
            copy = ended[event["event"]] + value
            history.sent_in(transaction, copy)
            if event["event"] == "aborted":
                history.sent(name, TopicPartition(options.target, partition), copy)
                history.aborted(copy)


def wait_until_copying(runs: Sequence[CopyRun]) -> None:
    """Each of them has gone on, with whoever had to be replaced for it."""
    before = [run.committed.count for run in runs]
    deadline = time.monotonic() + CATCH_UP_S
    while any(run.committed.count <= count for run, count in zip(runs, before, strict=True)):
        assert time.monotonic() < deadline, "\n".join(map(str, runs))
        for run in runs:
            run.feed()
            run.man()
        time.sleep(0.01)
