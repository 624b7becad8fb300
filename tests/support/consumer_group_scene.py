"""A group of the consumer protocol without a broker: decisions, their log, and clients' other half.

What is decided goes through bytes into ``log``, and from there into the group, as it would on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from odradek.broker.groups.consumer.assignors import Assignors
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.group_update import DecisionContext
from odradek.broker.groups.consumer.heartbeat import Heartbeat, HeartbeatResult, decide_heartbeat
from odradek.broker.groups.consumer.member import (
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupMember,
)
from odradek.broker.groups.consumer.member_removal import decide_leave, decide_removal
from odradek.broker.groups.consumer.partitions import Partitions, topic_partitions
from odradek.broker.groups.consumer.records import (
    CoordinatorRecord,
    deserialize_record,
    serialize_record,
)
from odradek.broker.groups.consumer.topics import TopicsSnapshot
from tests.support.metadata_updates import GOING, cluster, live_broker, state, topic_id, update

GROUP = "the-group"
Stored = tuple[bytes, bytes | None]


def replayed(log: Iterable[Stored]) -> ConsumerGroup:
    group = ConsumerGroup(GROUP)
    for each in log:
        group.apply(deserialize_record(*each))
    return group


def compacted(log: Iterable[Stored]) -> list[Stored]:
    """The last record of each key, where it stood; deletions too are dropped in the end."""
    entries = list(log)
    last = {key: number for number, (key, _) in enumerate(entries)}
    return [entries[number] for number in sorted(last.values()) if entries[number][1] is not None]


def parts(group: ConsumerGroup) -> dict[str, Any]:
    """All that the log is to keep."""
    names = (
        "epoch",
        "metadata_hash",
        "assignment_epoch",
        "members",
        "target_assignment",
        "resolved_regexes",
    )
    derived = ("partition_owners", "static_members", "subscriptions")
    return {name: getattr(group, name) for name in (*names, *derived)}


def of(topic: str, *partitions: int) -> Partitions:
    return frozenset(topic_partitions(topic_id(topic), partitions))


class GroupScene:
    """One group, and a cluster with topics."""

    def __init__(self, topics: Mapping[str, int] | None = None, *, members_max: int = 1000) -> None:
        self.cluster = cluster(update({}))
        self.topics = TopicsSnapshot(self.cluster.snapshot)
        self.group = ConsumerGroup(GROUP)
        self.log: list[Stored] = []
        self.now_ms = 1_000
        self.assignors = Assignors()
        self._members_max = members_max
        for name, count in (topics or {}).items():
            self.set_topic(name, count)

    def set_topic(self, name: str, count: int, *, racks: Mapping[int, str] | None = None) -> None:
        """Create or grow it; 0 deletes it."""
        states = [state(number) for number in range(count)]
        if not count:
            known = self.cluster.snapshot.topics[name].partitions
            states = [state(number, leader=GOING) for number in known]
        brokers = [live_broker(each, rack=(racks or {}).get(each)) for each in (1, 2)]
        self.cluster.update(update({name: states}, brokers=brokers))

    @property
    def around(self) -> DecisionContext:
        self.topics = self.topics.with_snapshot(self.cluster.snapshot)
        return DecisionContext(self.topics, self.now_ms, self.assignors, self._members_max)

    def write(self, records: Iterable[CoordinatorRecord]) -> None:
        for record in records:
            entry = serialize_record(record)
            self.log.append(entry)
            self.group.apply(deserialize_record(*entry))

    def heartbeat(self, member_id: str, epoch: int, **said: Any) -> HeartbeatResult:
        beat = Heartbeat(member_id, epoch, client_id="client", client_host="/127.0.0.1", **said)
        around = self.around
        decide = (
            decide_leave
            if epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH)
            else decide_heartbeat
        )
        decision = decide(self.group, beat, around)
        self.write(decision.update.records)
        if decide is decide_heartbeat:
            self.group.last_seen_topics = around.topics
        return decision.result

    def join(
        self, member_id: str, *names: str, expression: str | None = None, **said: Any
    ) -> HeartbeatResult:
        return self.heartbeat(
            member_id,
            0,
            **{"rebalance_timeout_ms": 5_000, "owned_partitions": frozenset()} | said,
            subscribed_topic_names=frozenset(names) if names or expression is None else None,
            subscribed_topic_regex=expression,
        )

    def expire(self, member_id: str) -> None:
        self.write(decide_removal(self.group, [member_id], self.around).records)

    def reload(self) -> None:
        """As after a restart."""
        self.group = replayed(self.log)

    def member(self, member_id: str) -> ConsumerGroupMember:
        return self.group.members[member_id]
