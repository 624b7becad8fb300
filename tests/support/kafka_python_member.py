"""A member of a group by kafka-python: see group_member_program.py.

Where topics change, it polls until there are records.  For 3.0.12 forgets a join that it has sent
because its topics are others now (``ConsumerCoordinator.need_rejoin``), if that is not answered
before the poll in which it was sent has ended: then it waits for nothing, and sends no heartbeats.
"""

from __future__ import annotations

from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.support.member_consumer import (
    MemberOptions,
    Offsets,
    Record,
    Tell,
    Told,
    is_expression,
    records,
    settings,
    subscription,
)

POLL_MS, POLL_FOR_RECORDS_MS = 100, 60_000
#: Commits that nobody waits for: beyond its five, kafka-python refuses them by itself.
IN_FLIGHT_MAX = 1000
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative": CooperativeStickyAssignor,
}


class KafkaPythonMember:
    def __init__(self, address: str, options: MemberOptions, tell: Tell) -> None:
        self._listener = Noted(tell)
        self._polled_max = options.polled_max
        self._consumer = KafkaConsumer(
            partition_assignment_strategy=[ASSIGNORS[options.assignor]],
            max_in_flight_requests_per_connection=IN_FLIGHT_MAX,
            **settings(address, options),
        )
        self.subscribe(options.topics)
        self._are_topics_settled = not self._may_topics_change

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(listener=self._listener, **subscription(topics))
        self._may_topics_change = is_expression(topics)
        self._are_topics_settled = False

    def poll(self) -> list[Record]:
        timeout_ms = POLL_MS if self._are_topics_settled else POLL_FOR_RECORDS_MS
        polled = self._consumer.poll(timeout_ms=timeout_ms, max_records=self._polled_max)
        self._are_topics_settled = not self._may_topics_change
        return records(polled)

    def commit(self, offsets: Offsets, told: Told) -> None:
        try:
            self._consumer.commit(_committed(offsets))
        except KafkaError as refusal:
            told(_name(refusal))
        else:
            told(None)

    def commit_later(self, offsets: Offsets, told: Told) -> None:
        def heard(_: object, outcome: Any) -> None:
            told(_name(outcome) if isinstance(outcome, Exception) else None)

        self._consumer.commit_async(_committed(offsets), callback=heard)

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class Noted(ConsumerRebalanceListener):
    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._tell("assigned", partitions=[[*each] for each in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._tell("revoked", partitions=[[*each] for each in revoked])


def _committed(offsets: Offsets) -> dict[Any, Any]:
    return {
        TopicPartition(*place): OffsetAndMetadata(offset, "", -1)
        for place, offset in offsets.items()
    }


def _name(refusal: Exception) -> str:
    """Of the broker's error, if it is that which refused."""
    cause = refusal.args[0] if refusal.args and isinstance(refusal.args[0], KafkaError) else refusal
    return getattr(cause, "message", None) or type(cause).__name__
