"""Consumers of both protocols in one group on a LiveGroupScene: each does what it is told, in time.

Both have ``owned``, what they read from.  One that is refused drops everything and is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.broker.groups.classic.outcomes import Offer
from odradek.broker.groups.classic.requests import heartbeat, leave_group
from odradek.broker.groups.consumer.live_group import LiveGroup
from odradek.broker.groups.consumer.partitions import NOTHING, Partitions
from odradek.protocol.errors import KafkaError, RebalanceInProgress
from tests.support.group_scene import GROUP
from tests.support.live_group_scene import LiveGroupScene, read_assigned, subscribed


class NewConsumer:
    """Of the consumer protocol."""

    def __init__(self, scene: LiveGroupScene, member_id: str, *topics: str, **said: Any) -> None:
        self.id = member_id
        self.is_done = False
        self.owned: Partitions = NOTHING
        self._scene = scene
        told = scene.join(member_id, *topics, **said)
        self.epoch = told.epoch
        self._told = told.assigned or NOTHING

    def step(self) -> None:
        """Give up what it was told to, say so, and begin to read what it was given."""
        self.owned &= self._told
        self.beat()
        if self.owned.issubset(self._told):
            self.owned = self._told

    def beat(self) -> None:
        try:
            told = self._scene.beat(self.id, self.epoch, owned=self.owned)
        except KafkaError:
            self.is_done, self.owned = True, NOTHING
            return
        self.epoch = told.epoch
        if told.assigned is not None:
            self._told = told.assigned

    def leave(self) -> None:
        self._scene.refusal(self.id, -1)
        self.is_done, self.owned = True, NOTHING


class ClassicConsumer:
    """Of the classic protocol, eager or cooperative; only while the group is one of ours."""

    def __init__(self, scene: LiveGroupScene, *topics: str, is_eager: bool) -> None:
        self.is_done = False
        self.owned: Partitions = NOTHING
        self.id = ""
        self._scene = scene
        self._topics = topics
        self._is_eager = is_eager
        self._generation = -1
        self._must_sync = False
        self.join()

    def join(self) -> None:
        if self._is_eager:
            self.owned = NOTHING
        offers = [Offer("sticky", subscribed(*self._topics, owned=self._owned_by_name()))]
        joined = self._scene.base.join(self.id, offers=offers, rebalance_ms=20_000)
        if not joined.is_answered or joined.error != "NONE" or not self._is_at_home:
            self.is_done, self.owned = True, NOTHING
            return
        self.id, self._generation = joined.result.member_id, joined.result.generation
        self._must_sync = True

    def step(self) -> None:
        """What comes next: ask for its part, or send a heartbeat."""
        if not self._is_at_home:
            self.is_done, self.owned = True, NOTHING
        elif self._must_sync:
            self._sync()
        else:
            self._beat()

    def leave(self) -> None:
        leave_group(self._scene.shard, GROUP, self.id, None, None)
        self.is_done, self.owned = True, NOTHING

    @property
    def _is_at_home(self) -> bool:
        return isinstance(self._scene.shard.groups.get(GROUP), LiveGroup)

    def _sync(self) -> None:
        synced = self._scene.base.sync(self.id, generation=self._generation)
        if synced.error == "REBALANCE_IN_PROGRESS":
            self.join()
        elif synced.error != "NONE":
            self.is_done, self.owned = True, NOTHING
        else:
            given, before = read_assigned(synced.result.assignment), self.owned
            self.owned, self._must_sync = given, False
            if before - given:
                self.join()

    def _beat(self) -> None:
        try:
            heartbeat(self._scene.shard, GROUP, self.id, None, self._generation)
        except RebalanceInProgress:
            self.join()
        except KafkaError:
            self.is_done, self.owned = True, NOTHING

    def _owned_by_name(self) -> Mapping[str, list[int]]:
        names = self._scene.cluster.picture.names
        by_name: dict[str, list[int]] = {}
        for topic_id, number in sorted(self.owned):
            if topic_id in names:
                by_name.setdefault(names[topic_id], []).append(number)
        return by_name
