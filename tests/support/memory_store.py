"""Stores without a disk: many sessions, of many brokers, on one tree.

Two things can be made to happen to a session: it ends when the test says so, and, for a failover
between any two writes, it ends just before the write that ``writes_left`` does not cover, even in
the middle of a run.

Owner: the event loop.
"""

import asyncio
from collections.abc import Callable, Sequence

from odradek.controller.store.base import (
    Check,
    MetadataStore,
    MultiFailed,
    Operation,
    Outcome,
    Read,
    Result,
    SessionExpired,
    SessionListener,
    SessionState,
    Write,
)
from odradek.controller.store.data_tree import DataTree, Effects


class MemoryStore(MetadataStore):
    """A session on a tree that others have sessions on too."""

    def __init__(self, tree: DataTree, *, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.session_id = 0
        self.writes_left: int | None = None
        self._tree = tree
        self._now_ms = now_ms
        self._listeners: list[SessionListener] = []

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def open_session(self) -> None:
        assert self.session_id == 0, "a session is open"
        await asyncio.sleep(0)
        self.session_id = self._tree.begin_session()
        self._tell(SessionState.CONNECTED)

    async def close(self) -> None:
        await asyncio.sleep(0)
        self._end_session()

    def expire(self) -> None:
        """The session ends, as if nothing had been heard of it for too long."""
        self._end_session()
        self._tell(SessionState.EXPIRED)

    async def run(
        self, operations: Sequence[Operation], *, fence: Check | None = None
    ) -> list[Outcome]:
        session_id = await self._sent()
        outcomes: list[Outcome] = []
        for operation in operations:
            await self._reached(session_id)
            if not isinstance(operation, Read):
                self._count_write()
            effects = self._tree.run(session_id, [operation], fence=fence, now_ms=self._now_ms())
            self._call(effects)
            outcomes += effects.outcomes
        await self._received(session_id)
        return outcomes

    async def multi(self, operations: Sequence[Write]) -> list[Result]:
        session_id = await self._sent()
        self._count_write()
        try:
            effects = self._tree.multi(session_id, operations, now_ms=self._now_ms())
        except MultiFailed:
            await self._received(session_id)
            raise
        self._call(effects)
        await self._received(session_id)
        return effects.outcomes

    async def _sent(self) -> int:
        session_id = self.session_id
        await self._received(session_id)
        return session_id

    async def _reached(self, session_id: int) -> None:
        """Nothing else happens between two operations of a run."""

    async def _received(self, session_id: int) -> None:
        """The session may end while requests and answers are on their way."""
        await asyncio.sleep(0)
        self._check(session_id)

    def _check(self, session_id: int) -> None:
        if session_id == 0 or session_id != self.session_id:
            raise SessionExpired

    def _count_write(self) -> None:
        if self.writes_left is None:
            return
        if self.writes_left == 0:
            self.writes_left = None
            self.expire()
            raise SessionExpired
        self.writes_left -= 1

    def _end_session(self) -> None:
        session_id, self.session_id = self.session_id, 0
        if session_id:
            self._call(self._tree.end_session(session_id, now_ms=self._now_ms()))

    def _call(self, effects: Effects) -> None:
        loop = asyncio.get_running_loop()
        for call in effects.watch_calls:
            loop.call_soon(call.watch, call.event)

    def _tell(self, state: SessionState) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.call_soon(listener, state)
