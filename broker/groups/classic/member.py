"""One member of a classic group.

It may wait for two things: the end of a rebalance, after JoinGroup, and the leader's assignment,
after SyncGroup.  Its client may be gone by then: it is a member all the same, until it is missed.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from odradek.broker.groups.classic.outcomes import Client, Joined, Offer, Synced, Timeouts
from odradek.broker.groups.deadline import Deadline

Outcome = TypeVar("Outcome")


class Member:
    """From its first join until it leaves, or is made to."""

    __slots__ = (
        "assignment",
        "client",
        "id",
        "instance_id",
        "is_new",
        "joining",
        "offers",
        "session",
        "syncing",
        "timeouts",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client: Client,
        timeouts: Timeouts,
        offers: Sequence[Offer],
    ) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.client = client
        self.timeouts = timeouts
        self.offers = tuple(offers)
        self.assignment = b""
        #: Whether it has not been through a rebalance yet, and so does not know its id.
        self.is_new = False
        self.joining: asyncio.Future[Joined] | None = None
        self.syncing: asyncio.Future[Synced] | None = None
        #: Given by the group.
        self.session: Deadline | None = None

    def metadata(self, protocol: str) -> bytes:
        for offer in self.offers:
            if offer.name == protocol:
                return offer.metadata
        raise KeyError(protocol)

    def vote(self, candidates: frozenset[str]) -> str:
        """The one it prefers."""
        return next(offer.name for offer in self.offers if offer.name in candidates)

    def offers_the_same(self, offers: Sequence[Offer]) -> bool:
        return self.offers == tuple(offers)

    @property
    def is_excused(self) -> bool:
        """Whether it need not send heartbeats: it waits, and we are the ones to speak.

        Not so a new member: its client may have gone, and would join again under another id.
        """
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def was_heard(self) -> None:
        """Its session begins anew."""
        if self.session is not None:
            self.session.put_off(by_ms=self.timeouts.session_ms)

    def answer_sync(self, outcome: Synced) -> bool:
        """Whether it waited for it."""
        waiting, self.syncing = self.syncing, None
        return waiting is not None and _answered(waiting, outcome)


def _answered(waiting: asyncio.Future[Outcome], outcome: Outcome) -> bool:
    if not waiting.done():  # as it is when its client has gone
        waiting.set_result(outcome)
    return True


def answer(waiting: asyncio.Future[Outcome] | None, outcome: Outcome) -> None:
    if waiting is not None:
        _answered(waiting, outcome)
