"""A member of a group: what it told of itself, and what it has.

Its two parts are the two records that the log has of it.  Epochs say how far a member has been led:
0 has joined, -1 has left, -2 is a static member that left and will be back; a positive one is the
group's epoch of the target that it has reached, or is being led to.

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
    """The number is that of the log."""

    #: Has all that it shall have, and nothing else.
    STABLE = 0
    #: Was told to give up partitions, and has not said yet that it did.
    UNREVOKED_PARTITIONS = 1
    #: Gave up what it had to, and waits for partitions that others have not given up yet.
    UNRELEASED_PARTITIONS = 2
    #: A newer broker has written one that is not known here.
    UNKNOWN = 127

    @classmethod
    def from_value(cls, value: int) -> MemberState:
        return cls(value) if value in _STATE_VALUES else cls.UNKNOWN


_STATE_VALUES = frozenset(state.value for state in MemberState)


@dataclass(frozen=True, slots=True)
class Subscription:
    """``expression`` is empty where there is none."""

    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """One of those that a member of the classic protocol proposed, with what it said in it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """What is known of a member that speaks the classic protocol in a group of the new one."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """What a member told of itself."""

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
    """What a member has: ``assigned``, and until it has given it up also ``to_revoke``."""

    epoch: int = JOIN_GROUP_MEMBER_EPOCH
    #: Still good from a member that may not have seen the answer which told of ``epoch``.
    previous_epoch: int = JOIN_GROUP_MEMBER_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    pending_revocation: Partitions = NO_PARTITIONS

    @property
    def held(self) -> Partitions:
        """What nobody else may be given."""
        return self.assigned | self.pending_revocation

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """One member at one moment."""

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
