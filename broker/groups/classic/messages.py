"""The JoinGroup request, and the results of JoinGroup and SyncGroup.

A result may carry an error and other fields: MEMBER_ID_REQUIRED comes with the new member id.  A
result with ``waits_for_replication`` describes records that are appended; its response is sent when
they are replicated.  Results of classic groups are completed after replication and do not set it.

Owner: none; treated as immutable, any thread.  The dataclasses are not frozen: frozen ones take
three times as long to construct, and a rebalance constructs some for each member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.protocol.errors import KafkaError

#: The member id of a client that has none yet.
UNKNOWN_MEMBER_ID = ""
UNKNOWN_GENERATION_ID = -1


class MemberProtocol(NamedTuple):
    """A protocol that a member supports, and the member's metadata in it."""

    name: str
    metadata: bytes


class ClientIdentity(NamedTuple):
    """The client id and host of a member, as DescribeGroups returns them."""

    id: str
    host: str


class Timeouts(NamedTuple):
    """The session timeout and the rebalance timeout of a member."""

    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(slots=True, kw_only=True)
class JoinRequest:
    """A JoinGroup request; ``protocols`` are in the member's order of preference."""

    member_id: str
    instance_id: str | None
    client: ClientIdentity
    timeouts: Timeouts
    protocol_type: str
    protocols: Sequence[MemberProtocol]
    #: Whether a new client first gets its member id, and joins again with it (KIP-394).
    requires_known_member_id: bool
    #: Whether the client knows SkipAssignment, which tells a leader not to assign (KIP-814).
    supports_skipping_assignment: bool
    reason: str | None = None

    def generate_member_id(self, unique_suffix: str) -> str:
        """Return the id of a new member, prefixed with its instance id or else its client id."""
        prefix = self.client.id if self.instance_id is None else self.instance_id
        return f"{prefix}-{unique_suffix}"


class JoinGroupMember(NamedTuple):
    """A member as the leader's JoinGroup response lists it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class JoinGroupResult:
    """The result of JoinGroup; ``members`` is set for the leader only."""

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
