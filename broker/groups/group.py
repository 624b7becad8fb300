"""The interface that classic and consumer groups share, for offsets and for admin requests.

Kafka: Group.

Owner: the event loop.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from odradek.broker.groups.offsets import OffsetAndMetadata


class GroupType(Enum):
    """The value is the group type in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Committer(NamedTuple):
    """The member fields of a request that commits offsets."""

    member_id: str
    instance_id: str | None
    #: For a consumer group this is the member epoch.
    generation_or_member_epoch: int
    #: Whether the request version has member epochs.
    supports_member_epochs: bool = True

    @property
    def is_member(self) -> bool:
        """Whether the request names a member; otherwise it comes from an admin or simple client."""
        return (
            self.generation_or_member_epoch >= 0
            or bool(self.member_id)
            or self.instance_id is not None
        )


class Group(Protocol):
    """A classic or a consumer group."""

    @property
    def id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """The state as DescribeGroups and ListGroups return it."""

    @property
    def protocol_type(self) -> str:
        """Empty if the group never had members."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members; pending member ids do not count.

        An empty group may be deleted.
        """

    def validate_offset_commit(self, committer: Committer, *, is_transactional: bool) -> None:
        """Raise KafkaError if the committer may not commit.

        A classic group also resets the member's session timer, except in a transactional commit.
        """

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError if the member may not fetch offsets."""

    def validate_offset_delete(self) -> None:
        """Raise KafkaError if the topics that the members need are unknown."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members use offsets of the topic; True if the subscription is unknown."""

    def offset_expiration_base_ms(
        self, topic: str, offset_and_metadata: OffsetAndMetadata
    ) -> int | None:
        """Return the time in ms from which the retention counts; None if the offset must stay."""

    def tombstone_keys(self) -> list[bytes]:
        """Return the keys of the group's records in the log; empty if it has none."""

    def on_loaded(self) -> None:
        """Start the session timers: the shard has loaded the group."""

    def on_unloaded(self) -> None:
        """Cancel all timers and complete waiting requests: the group moved away or was deleted."""
