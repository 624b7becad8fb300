"""The client's half of the consumer protocol: a member that does what it is told, in time."""

from __future__ import annotations

from typing import Any

from odradek.broker.groups.consumer.heartbeat import HeartbeatResult
from odradek.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions
from odradek.protocol.errors import FencedMemberEpoch, UnknownMemberId
from tests.support.consumer_group_scene import GroupScene


class ProtocolClient:
    """``owned`` is what it reads from; it follows what it was assigned when it gets to it.

    ``about`` is what it says when it joins: ``names`` and, if it likes, ``expression``,
    ``assignor`` and ``instance_id``.
    """

    def __init__(self, scene: GroupScene, member_id: str, **about: Any) -> None:
        self.id = member_id
        self.epoch = 0
        self.owned: Partitions = NO_PARTITIONS
        self.told: Partitions = NO_PARTITIONS
        self._scene = scene
        self._about = about
        self._has_missed_an_answer = False

    @property
    def is_member(self) -> bool:
        return self.epoch > 0

    @property
    def instance_id(self) -> str | None:
        instance_id: str | None = self._about.get("instance_id")
        return instance_id

    def join(self) -> None:
        names = self._about["names"]
        about = {key: value for key, value in self._about.items() if key != "names"}
        self._hear(self._scene.join(self.id, *names, **about))

    def subscribe(self, *names: str) -> None:
        self._about["names"] = names
        self._hear(
            self._beat(
                subscribed_topic_names=self._names,
                owned_partitions=self.owned,
                rebalance_timeout_ms=5_000,
            )
        )

    def heartbeat(self, *, tells_owned: bool = True, is_answer_lost: bool = False) -> None:
        """One that is fenced drops what it has; one that missed an answer tells everything."""
        everything = {"subscribed_topic_names": self._names, "rebalance_timeout_ms": 5_000}
        try:
            if self._has_missed_an_answer:
                told = self._beat(owned_partitions=self.owned, **everything)
            else:
                told = self._beat(owned_partitions=self.owned if tells_owned else None)
        except (FencedMemberEpoch, UnknownMemberId):
            self.epoch, self.owned, self.told = 0, NO_PARTITIONS, NO_PARTITIONS
            return
        self._has_missed_an_answer = is_answer_lost
        if not is_answer_lost:
            self._hear(told)

    @property
    def _names(self) -> frozenset[str]:
        return frozenset(self._about["names"])

    def revoke(self) -> None:
        """Stop reading what it was not told to read."""
        self.owned &= self.told

    def take(self) -> None:
        """Begin to read what it was told to.

        Not where an answer is missing: what it did not name as its own may be another's by now.
        """
        if not self._has_missed_an_answer:
            self.owned = self.told

    def _beat(self, **said: Any) -> HeartbeatResult:
        return self._scene.heartbeat(self.id, self.epoch, **said)

    def _hear(self, told: HeartbeatResult) -> None:
        self.epoch = told.member_epoch
        if told.assigned is not None:
            self.told = told.assigned
