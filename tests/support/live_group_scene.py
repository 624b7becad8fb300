"""A shard with groups of the consumer protocol, a cluster with topics, and time that a test passes.

It has a GroupScene, whose members speak the classic protocol; here are the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.broker.groups.classic.messages import ClientIdentity
from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime
from odradek.broker.groups.consumer.heartbeat import HeartbeatResult
from odradek.broker.groups.consumer.member import ConsumerGroupMember
from odradek.broker.groups.consumer.partitions import Partitions
from odradek.broker.groups.consumer.requests import check_heartbeat_request, heartbeat
from odradek.broker.groups.consumer.topics import TopicsProvider
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.broker.settings.consumer_groups import ConsumerGroupSettings, OneGroupSettings
from odradek.protocol.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Request
from odradek.protocol.errors import KafkaError
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.protocol.internal.coordinator_record import (
    decode_version_prefixed,
    encode_version_prefixed,
)
from tests.support.consumer_group_scene import of
from tests.support.group_scene import GROUP, GroupScene
from tests.support.metadata_updates import GOING, cluster, state, update

SESSION_MS = 45_000
REBALANCE_MS = 20_000


class LiveGroupScene:
    """``settings`` are those of the consumer protocol."""

    def __init__(self, topics: Mapping[str, int], **settings: Any) -> None:
        self.cluster = cluster(update({}))
        for name, count in topics.items():
            self.set_topic(name, count)
        self.base = GroupScene()
        #: Groups that have settings of their own.
        self.configured: dict[str, OneGroupSettings] = {}
        self.base.world = replace(
            self.base.world,
            consumer_settings=ConsumerGroupSettings(**settings),
            topics_provider=TopicsProvider(lambda: self.cluster.snapshot),
            group_configs=self.configured,
        )
        self.base.shard = GroupCoordinatorShard(self.base.log, self.base.world)  # type: ignore[arg-type]

    @property
    def shard(self) -> GroupCoordinatorShard:
        return self.base.shard

    @property
    def live(self) -> ConsumerGroupRuntime:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ConsumerGroupRuntime), group
        return group

    def member(self, member_id: str) -> ConsumerGroupMember:
        return self.live.group.members[member_id]

    def set_topic(self, name: str, count: int) -> None:
        """Create or grow it; 0 deletes it."""
        states = [state(number) for number in range(count)]
        if not count:
            known = self.cluster.snapshot.topics[name].partitions
            states = [state(number, leader=GOING) for number in known]
        self.cluster.update(update({name: states}))

    def beat(
        self, member_id: str, epoch: int, *, owned: Partitions | None = None, **said: Any
    ) -> HeartbeatResult:
        """Raises what the member is told."""
        request = Request(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None if owned is None else _as_topics(owned),
            **said,
        )
        check_heartbeat_request(self.base.world.consumer_settings, request, version=1)
        return heartbeat(self.shard, request, ClientIdentity("client", "/127.0.0.1"))

    def join(self, member_id: str, *names: str, **said: Any) -> HeartbeatResult:
        wanted = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": list(names)}
        return self.beat(member_id, 0, owned=frozenset(), **wanted | said)

    def refusal(self, member_id: str, epoch: int, **said: Any) -> str:
        try:
            self.beat(member_id, epoch, **said)
        except KafkaError as failure:
            return failure.error_code.name
        return "NONE"

    def close(self) -> None:
        self.base.close()


def subscribed(*topics: str, owned: Mapping[str, list[int]] | None = None) -> bytes:
    """As a member of the classic protocol tells it."""
    told = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartitions(topic=name, partitions=numbers)
            for name, numbers in (owned or {}).items()
        ],
    )
    return encode_version_prefixed(told, 1)


def assigned(**topics: list[int]) -> bytes:
    """As a leader of the classic protocol tells it."""
    parts = [
        ConsumerProtocolAssignment.TopicPartitions(topic=name, partitions=numbers)
        for name, numbers in topics.items()
    ]
    return encode_version_prefixed(ConsumerProtocolAssignment(assigned_partitions=parts), 1)


def read_assigned(blob: bytes) -> Partitions:
    told = decode_version_prefixed(ConsumerProtocolAssignment, blob)
    return frozenset(
        place for topic in told.assigned_partitions for place in of(topic.topic, *topic.partitions)
    )


def _as_topics(owned: Partitions) -> list[Request.TopicPartitions]:
    by_topic: dict[Any, list[int]] = {}
    for topic_id, number in sorted(owned):
        by_topic.setdefault(topic_id, []).append(number)
    return [
        Request.TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in by_topic.items()
    ]
