"""A member of a consumer group: its metadata, and its current assignment.

Each of these parts has its own record in the log.  The member epoch shows the progress of the
member:

    0     it has joined
    -1    it has left
    -2    it is a static member that has left and will rejoin
    > 0   the group epoch of the target assignment that it has reached or is reconciled to

Kafka: ConsumerGroupMember.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from odradek.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions

JOIN_GROUP_MEMBER_EPOCH = 0
LEAVE_GROUP_MEMBER_EPOCH = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2


class MemberState(IntEnum):
    """The value is that in the log."""

    #: It has exactly its target assignment.
    STABLE = 0
    #: It must revoke partitions, and has not confirmed this yet.
    UNREVOKED_PARTITIONS = 1
    #: It waits for partitions that other members have not revoked yet.
    UNRELEASED_PARTITIONS = 2
    #: A newer broker has written a state that this broker does not know.
    UNKNOWN = 127

    @classmethod
    def from_value(cls, value: int) -> MemberState:
        return cls(value) if value in _STATE_VALUES else cls.UNKNOWN


_STATE_VALUES = frozenset(state.value for state in MemberState)


@dataclass(frozen=True, slots=True)
class Subscription:
    """``topic_regex`` is empty if there is none."""

    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """A protocol that a classic member supports, and its metadata in it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """The JoinGroup fields of a classic member in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """The fields that a member sends about itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscription: Subscription = field(default_factory=Subscription)
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic_metadata: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The ``assigned`` partitions, and those ``pending_revocation`` until they are revoked."""

    epoch: int = JOIN_GROUP_MEMBER_EPOCH
    #: Accepted from a member that may not have received the response with ``epoch``.
    previous_epoch: int = JOIN_GROUP_MEMBER_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    pending_revocation: Partitions = NO_PARTITIONS

    @property
    def held(self) -> Partitions:
        """The partitions that no other member may get."""
        return self.assigned | self.pending_revocation

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """A member at one moment; an update creates a new object."""

    id: str
    metadata: MemberMetadata = field(default_factory=MemberMetadata)
    current_assignment: CurrentAssignment = field(default_factory=CurrentAssignment)

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def epoch(self) -> int:
        return self.current_assignment.epoch

    @property
    def subscription(self) -> Subscription:
        return self.metadata.subscription

    @property
    def is_classic(self) -> bool:
        return self.metadata.classic_metadata is not None
