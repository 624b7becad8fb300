"""What JoinGroup asks for, and what it and SyncGroup are answered.

An outcome with a failure is one too: a client that must learn its member's id is told it together
with MEMBER_ID_REQUIRED.  One that is of the log tells of what was written, and waits until that is
replicated; those of classic groups are not made before.

Owner: none; to be treated as immutable, by any thread.  Frozen, they would take three times as
long to make, and a rebalance makes some for each member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.protocol.errors import KafkaError

#: The id of a member that has none yet.
UNKNOWN_MEMBER_ID = ""
UNKNOWN_GENERATION_ID = -1


class MemberProtocol(NamedTuple):
    """A protocol that a member speaks, and what it has to say in it."""

    name: str
    metadata: bytes


class ClientIdentity(NamedTuple):
    """Who a member is, for whoever looks."""

    id: str
    host: str


class Timeouts(NamedTuple):
    """How long a member may be silent, and how long a rebalance may wait for it."""

    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(slots=True, kw_only=True)
class JoinRequest:
    """Offers are in the order in which the member prefers them."""

    member_id: str
    instance_id: str | None
    client: ClientIdentity
    timeouts: Timeouts
    protocol_type: str
    protocols: Sequence[MemberProtocol]
    #: Whether the client is first told its id, and joins again with it (KIP-394).
    requires_known_member_id: bool
    #: Whether the client knows that a leader may be told not to assign (KIP-814).
    supports_skipping_assignment: bool
    reason: str | None = None

    def generate_member_id(self, unique_suffix: str) -> str:
        """Of a new member: after its instance, or else its client."""
        prefix = self.client.id if self.instance_id is None else self.instance_id
        return f"{prefix}-{unique_suffix}"


class JoinGroupMember(NamedTuple):
    """What the leader is told of each member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class JoinGroupResult:
    """``members`` are for the leader alone."""

    member_id: str
    error: KafkaError | None = None
    generation: int = UNKNOWN_GENERATION_ID
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[JoinGroupMember] = ()
    waits_for_replication: bool = False


@dataclass(slots=True, kw_only=True)
class SyncGroupResult:
    error: KafkaError | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""
    waits_for_replication: bool = False
