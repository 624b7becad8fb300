"""Consumers of both protocols that share a group on a LiveGroupScene, of whichever kind it is.

Each takes one step at a time: it asks for what comes next, or looks whether it was answered.  All
have ``owned``, what they read from.  Who is refused gives up everything, and joins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from odradek.broker.groups.classic.messages import JoinGroupResult, MemberProtocol
from odradek.broker.groups.classic.requests import heartbeat, leave_group
from odradek.broker.groups.consumer.consumer_protocol_codec import deserialize_subscription
from odradek.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions
from odradek.broker.groups.group import Committer
from odradek.protocol.errors import KafkaError
from tests.support.group_scene import GROUP
from tests.support.live_group_scene import (
    REBALANCE_MS,
    LiveGroupScene,
    assigned,
    read_assigned,
    subscribed,
)

_numbers = count(1)
_STARTS_AGAIN = ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID")
_LOSES_ALL = (*_STARTS_AGAIN, "ILLEGAL_GENERATION")


class NewConsumer:
    """Of the consumer protocol."""

    def __init__(
        self, scene: LiveGroupScene, topics: tuple[str, ...], *, instance_id: str | None = None
    ) -> None:
        self.topics = topics
        self.instance_id = instance_id
        self.owned: Partitions = NO_PARTITIONS
        self._scene = scene
        self._said = {} if instance_id is None else {"instance_id": instance_id}
        self._begin()

    def _begin(self) -> None:
        self.id, self.epoch = f"new-{next(_numbers)}", 0
        self.owned = self._told = NO_PARTITIONS

    @property
    def committer(self) -> Committer:
        return Committer(self.id, self.instance_id, self.epoch)

    def step(self) -> None:
        """Give up what it was told to, say so, and begin to read what it was given."""
        self.owned &= self._told
        try:
            if self.epoch == 0:
                told = self._scene.join(self.id, *self.topics, **self._said)
            else:
                told = self._scene.beat(self.id, self.epoch, owned=self.owned, **self._said)
        except KafkaError:
            self._begin()
            return
        self.epoch = told.member_epoch
        if told.assigned is not None:
            self._told = told.assigned
        if self.owned <= self._told:
            self.owned = self._told

    def stop(self, *, for_good: bool) -> None:
        is_back_soon = self.instance_id is not None and not for_good
        self._scene.refusal(self.id, -2 if is_back_soon else -1, **self._said)


class ClassicConsumer:
    """Of the classic protocol, eager or cooperative."""

    def __init__(
        self,
        scene: LiveGroupScene,
        topics: tuple[str, ...],
        *,
        is_eager: bool,
        instance_id: str | None = None,
    ) -> None:
        self.topics = topics
        self.instance_id = instance_id
        self.owned: Partitions = NO_PARTITIONS
        self.id = ""
        self._scene = scene
        self._is_eager = is_eager
        self._generation = -1
        self._plan: dict[str, bytes] = {}
        #: The topics' sizes that it has assigned by, if it leads.
        self._seen: Mapping[str, int] | None = None
        self._waiting: Any = None
        self._next = self._join

    @property
    def committer(self) -> Committer:
        return Committer(self.id, self.instance_id, self._generation)

    def step(self) -> None:
        self._next()

    def stop(self, *, for_good: bool) -> None:
        """A static member does not say that it stops."""
        if self.id and (for_good or self.instance_id is None):
            leave_group(self._scene.shard, GROUP, self.id, self.instance_id, None)

    # JoinGroup

    def _join_again(self, error: str = "") -> None:
        if error in _LOSES_ALL:
            self.owned = NO_PARTITIONS
        if error in _STARTS_AGAIN:
            self.id = ""
        self._seen, self._next = None, self._join

    def _join(self) -> None:
        if self._is_eager:
            self.owned = NO_PARTITIONS
        told = subscribed(*self.topics, owned=self._by_name(self.owned))
        try:
            self._waiting = self._scene.base.join(
                self.id,
                instance_id=self.instance_id,
                rebalance_ms=REBALANCE_MS,
                protocols=[MemberProtocol("sticky", told)],
            )
        except KafkaError as failure:
            self._join_again(failure.error_code.name)
            return
        self._next = self._look_whether_joined
        self._next()

    def _look_whether_joined(self) -> None:
        if not self._waiting.is_answered:
            return
        joined = self._waiting.result
        if self._waiting.error != "NONE":
            self._join_again(self._waiting.error)
            return
        self.id, self._generation = joined.member_id, joined.generation
        self._plan = {}
        if joined.leader == self.id and joined.members:
            # What its earlier life has assigned by it cannot know.  Java's takes it for what there
            # is now, and misses what has grown in between, with any broker.
            self._seen = {} if joined.skip_assignment else self._sizes()
            if not joined.skip_assignment:
                self._plan = self._planned(joined)
        self._next = self._sync

    def _planned(self, joined: JoinGroupResult) -> dict[str, bytes]:
        """In turn; nobody is given what another has not given up yet.

        Whoever has to give up joins again, but a static member that restarts first does not know
        that it has to: as with any broker, so the leader looks again.
        """
        now = self._scene.base.world.topics_provider.current
        said = {
            each.member_id: deserialize_subscription(each.metadata, now) for each in joined.members
        }
        owners = {place: each for each, told in said.items() for place in told.owned_partitions}
        plan: dict[str, dict[str, list[int]]] = {each: {} for each in said}
        for topic, size in self._sizes().items():
            topic_id = now.topic_id(topic)
            readers = sorted(each for each, told in said.items() if topic in told.topic_names)
            for number in range(size if readers and topic_id is not None else 0):
                reader = readers[number % len(readers)]
                if owners.get((topic_id, number), reader) == reader:
                    plan[reader].setdefault(topic, []).append(number)
                else:
                    self._seen = {}
        return {each: assigned(**parts) for each, parts in plan.items()}

    # SyncGroup

    def _sync(self) -> None:
        self._waiting = self._scene.base.sync(
            self.id, self._plan, generation=self._generation, instance_id=self.instance_id
        )
        self._next = self._look_whether_assigned
        self._next()

    def _look_whether_assigned(self) -> None:
        if not self._waiting.is_answered:
            return
        if self._waiting.error != "NONE":
            self._join_again(self._waiting.error)
            return
        blob, before = self._waiting.result.assignment, self.owned
        self.owned, self._next = read_assigned(blob) if blob else NO_PARTITIONS, self._beat
        if before - self.owned:
            self._join_again()

    # Heartbeat

    def _beat(self) -> None:
        if self._seen is not None and self._seen != self._sizes():
            self._join_again()
            return
        try:
            heartbeat(self._scene.shard, GROUP, self.id, self.instance_id, self._generation)
        except KafkaError as failure:
            self._join_again(failure.error_code.name)

    # What it knows

    def _sizes(self) -> Mapping[str, int]:
        topics = self._scene.cluster.snapshot.topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def _by_name(self, partitions: Partitions) -> Mapping[str, list[int]]:
        names = self._scene.cluster.snapshot.topic_names
        by_name: dict[str, list[int]] = {}
        for topic_id, number in sorted(partitions):
            if topic_id in names:
                by_name.setdefault(names[topic_id], []).append(number)
        return by_name
