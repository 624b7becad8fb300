"""One member of a classic group.

It may wait for two things: the end of a rebalance, after JoinGroup, and the leader's assignment,
after SyncGroup.  Its client may be gone by then: it is a member all the same, until it is missed.

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
    """From its first join until it leaves, or is made to."""

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
        #: Whether it has not been through a rebalance yet, and so does not know its id.
        self.is_new = False
        self.awaiting_join_future: asyncio.Future[JoinGroupResult] | None = None
        self.awaiting_sync_future: asyncio.Future[SyncGroupResult] | None = None
        #: Given by the group.
        self.session_timer: ExpirationTimer | None = None

    def metadata(self, protocol: str) -> bytes:
        for supported in self.supported_protocols:
            if supported.name == protocol:
                return supported.metadata
        raise KeyError(protocol)

    def vote(self, candidates: frozenset[str]) -> str:
        """The one it prefers."""
        return next(
            supported.name for supported in self.supported_protocols if supported.name in candidates
        )

    def has_same_protocols(self, protocols: Sequence[MemberProtocol]) -> bool:
        return self.supported_protocols == tuple(protocols)

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether it need not send heartbeats: it waits, and we are the ones to speak.

        Not so a new member: its client may have gone, and would join again under another id.
        """
        return not self.is_new and (
            self.awaiting_join_future is not None or self.awaiting_sync_future is not None
        )

    def reset_session_timer(self) -> None:
        """Its session begins anew."""
        if self.session_timer is not None:
            self.session_timer.reset(timeout_ms=self.timeouts.session_timeout_ms)

    def complete_sync_future(self, result: SyncGroupResult) -> bool:
        """Whether it waited for it."""
        future, self.awaiting_sync_future = self.awaiting_sync_future, None
        return future is not None and _complete_future(future, result)


def _complete_future(future: asyncio.Future[Result], result: Result) -> bool:
    if not future.done():  # as it is when its client has gone
        future.set_result(result)
    return True


def complete_future(future: asyncio.Future[Result] | None, result: Result) -> None:
    if future is not None:
        _complete_future(future, result)
