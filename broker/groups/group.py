"""What a group of any kind can tell, to whoever keeps offsets, lists groups or deletes them.

Owner: the event loop.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from odradek.broker.groups.offsets import OffsetAndMetadata


class GroupType(Enum):
    """As ListGroups tells it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Committer(NamedTuple):
    """Who commits, as the request has it."""

    member_id: str
    instance_id: str | None
    #: Of a consumer group, the member's epoch.
    generation_or_member_epoch: int
    #: Whether the request is of a version that has epochs.
    supports_member_epochs: bool = True

    @property
    def is_member(self) -> bool:
        """Whether a member is named; else somebody commits from outside."""
        return (
            self.generation_or_member_epoch >= 0
            or bool(self.member_id)
            or self.instance_id is not None
        )


class Group(Protocol):
    """Of any kind."""

    @property
    def id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """As clients are told."""

    @property
    def protocol_type(self) -> str:
        """Empty if the group never had members."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and so may be deleted, even if somebody was told an id."""

    def validate_offset_commit(self, committer: Committer, *, is_transactional: bool) -> None:
        """Refuse whoever may not commit; who may has shown that it is alive."""

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse whoever may not ask for offsets."""

    def validate_offset_delete(self) -> None:
        """Refuse where nobody can tell which offsets the members need."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether its offsets must stay; true if the group does not know."""

    def offset_expiration_base_ms(
        self, topic: str, offset_and_metadata: OffsetAndMetadata
    ) -> int | None:
        """Since when nobody uses the commit, in ms; None if somebody may."""

    def tombstone_keys(self) -> list[bytes]:
        """The keys of its records in the log, if there are any."""

    def on_loaded(self) -> None:
        """It has been loaded: sessions begin to count."""

    def on_unloaded(self) -> None:
        """It is no longer ours, or no longer at all: who waits is told, and no timer is left."""
