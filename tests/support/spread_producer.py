"""A transactional producer among several brokers: each request goes to whoever coordinates by then.

    producer = SpreadProducer(cluster, "copier")
    producer.init()
    producer.add_offsets("readers")
    producer.ask_commit_offset("events", 5, "readers")
    producer.end(committed=True)

Owner: the thread of the test.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.support.cluster import Cluster
from tests.support.cluster_coordinators import GROUP, TRANSACTION, coordinator
from tests.support.group_wire import WireMember
from tests.support.transaction_wire import WireProducer, settled


class SpreadProducer:
    """Has no connection for longer than a request; ``ask_*`` tells the name of the error."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._name = transactional_id
        self._id = self._epoch = -1

    def init(self) -> None:
        self._must(lambda producer: producer.ask_init())

    def add_offsets(self, group: str) -> None:
        self._must(lambda producer: producer.ask_add_offsets(group))

    def ask_commit_offset(
        self, topic: str, offset: int, group: str = "", *, member: WireMember | None = None
    ) -> str:
        """Of partition 0, as part of the transaction; of this group, or of the member's."""
        named = member.group if member is not None else group
        return self._asked(
            GROUP,
            named,
            lambda producer: producer.ask_commit_offset(named, topic, offset, member=member),
        )

    def end(self, *, committed: bool) -> None:
        """And wait until it is done everywhere."""
        for _ in range(2):  # asked again it is answered when nothing is left to do
            self._must(lambda producer: producer.ask_end(committed=committed))

    def _must(self, ask: Callable[[WireProducer], str]) -> None:
        answer = self._asked(TRANSACTION, self._name, ask)
        assert answer == "NONE", answer

    def _asked(self, kind: int, key: str, ask: Callable[[WireProducer], str]) -> str:
        """Whoever coordinates ``key``, until it says what will not pass."""

        def at_coordinator() -> str:
            at = coordinator(self._cluster, kind, key)
            with WireProducer(at.address, self._name) as producer:
                producer.id, producer.epoch = self._id, self._epoch
                answer = ask(producer)
                self._id, self._epoch = producer.id, producer.epoch
                return answer

        return settled(at_coordinator)
