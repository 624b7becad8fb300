"""One member of a classic group.

A member may wait for two responses: JoinGroup waits for the rebalance to complete, SyncGroup waits
for the leader's assignment.  If its client disconnects while it waits, it stays a member until its
session expires.

Kafka: ClassicGroupMember.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from odradek.broker.groups.classic.messages import (
    ClientIdentity,
    JoinGroupResult,
    MemberProtocol,
    SyncGroupResult,
    Timeouts,
)
from odradek.broker.groups.expiration_timer import ExpirationTimer

Result = TypeVar("Result")


class ClassicGroupMember:
    """A member, from its first JoinGroup until it leaves or is removed."""

    __slots__ = (
        "assignment",
        "awaiting_join_future",
        "awaiting_sync_future",
        "client",
        "id",
        "instance_id",
        "is_new",
        "session_timer",
        "supported_protocols",
        "timeouts",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client: ClientIdentity,
        timeouts: Timeouts,
        protocols: Sequence[MemberProtocol],
    ) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.client = client
        self.timeouts = timeouts
        self.supported_protocols = tuple(protocols)
        self.assignment = b""
        #: Whether its first rebalance has not completed; its client does not know its id yet.
        self.is_new = False
        self.awaiting_join_future: asyncio.Future[JoinGroupResult] | None = None
        self.awaiting_sync_future: asyncio.Future[SyncGroupResult] | None = None
        #: Set by the group.
        self.session_timer: ExpirationTimer | None = None

    def metadata(self, protocol: str) -> bytes:
        for supported in self.supported_protocols:
            if supported.name == protocol:
                return supported.metadata
        raise KeyError(protocol)

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the candidate that the member prefers."""
        return next(
            supported.name for supported in self.supported_protocols if supported.name in candidates
        )

    def has_same_protocols(self, protocols: Sequence[MemberProtocol]) -> bool:
        return self.supported_protocols == tuple(protocols)

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether the member need not send heartbeats: its request waits for the coordinator.

        A new member must not be exempt: its client may have disconnected, and would join again with
        another id.
        """
        return not self.is_new and (
            self.awaiting_join_future is not None or self.awaiting_sync_future is not None
        )

    def reset_session_timer(self) -> None:
        if self.session_timer is not None:
            self.session_timer.reset(timeout_ms=self.timeouts.session_timeout_ms)

    def complete_sync_future(self, result: SyncGroupResult) -> bool:
        """Complete the waiting SyncGroup; return whether there was one."""
        future, self.awaiting_sync_future = self.awaiting_sync_future, None
        return future is not None and _complete_future(future, result)


def _complete_future(future: asyncio.Future[Result], result: Result) -> bool:
    if not future.done():  # it is done if the client disconnected
        future.set_result(result)
    return True


def complete_future(future: asyncio.Future[Result] | None, result: Result) -> None:
    if future is not None:
        _complete_future(future, result)
