"""A metadata store for a single broker: the tree in memory, written through to a journal on disk.

An operation is done in memory when it arrives, so that every later one sees it, but it is answered,
and watches are called for it, only when everything it did or saw is on disk:

    waiting   operations that have been done in memory, in order
    writing   those whose changes are being committed, off the loop

What arrives during a commit waits and shares the next one.  Reads wait too, behind the writes that
they may have seen.

When a commit fails, memory is ahead of the disk, so the session is over: everything writing and
waiting fails with SessionExpired, as does all that comes later.  Some of it may have been written.
``open_session`` then reads the file again; a JournalError says why it cannot be used.

Ephemeral nodes are never written and so end with the session, however it ends.  There is one
session at a time; its beginning is a change of its own, so a zxid is never used twice.

Owner: the event loop; the journal's methods run off it, one at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from odradek.controller.store.base import (
    Check,
    MetadataStore,
    MultiFailed,
    Operation,
    Outcome,
    Result,
    SessionExpired,
    SessionListener,
    SessionState,
    StoreError,
    Write,
)
from odradek.controller.store.data_tree import DataTree, Effects, Mutation
from odradek.controller.store.journal import JournalError

logger = logging.getLogger(__name__)

#: Calls ``fn(*args)`` on a thread.  A future, so that a commit needs no task to see to it.
RunInThread = Callable[..., asyncio.Future[Any]]


class Journal(Protocol):
    """Where changes are kept; journal.py has the real one."""

    def open(self) -> DataTree: ...

    def commit(self, mutations: Iterable[Mutation], zxid: int) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _CommitBatch:
    """What one commit is for; ``effects`` and ``answers`` in pairs, in the order of arrival."""

    zxid: int = 0
    effects: list[Effects] = field(default_factory=list)
    futures: list[asyncio.Future[list[Outcome]]] = field(default_factory=list)

    def mutations(self) -> list[Mutation]:
        last = {
            path: mutation for each in self.effects for path, mutation in each.mutations.items()
        }
        return list(last.values())


class EmbeddedStore(MetadataStore):
    """A store in this process: see above for when it answers."""

    def __init__(
        self, journal: Journal, *, run_in_thread: RunInThread, now_ms: Callable[[], int]
    ) -> None:
        self.session_id = 0
        self._journal = journal
        self._run_in_thread = run_in_thread
        self._now_ms = now_ms
        self._listeners: list[SessionListener] = []
        self._tree: DataTree | None = None  # none unless a session is open
        self._committed_zxid = 0
        self._pending_batch = _CommitBatch()
        self._committing_batch: _CommitBatch | None = None
        self._journal_call: asyncio.Future[Any] | None = None  # the journal's last call

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def open_session(self) -> None:
        assert self._tree is None, "a session is open"
        tree: DataTree = await self._run_exclusively(self._journal.open)
        session_id = tree.begin_session()
        await self._run_exclusively(self._journal.commit, [], tree.zxid)
        self._tree, self._committed_zxid, self.session_id = tree, tree.zxid, session_id
        self._notify_listeners(SessionState.CONNECTED)

    async def close(self) -> None:
        """What was asked for before is done before."""
        if self._tree is not None:
            last = self._enqueue_commit(self._tree, Effects())
            self._tree = None
            await asyncio.gather(last, return_exceptions=True)
        await self._run_exclusively(self._journal.close)

    async def run(
        self, operations: Sequence[Operation], *, fence: Check | None = None
    ) -> list[Outcome]:
        tree = self._open_tree()
        effects = tree.run(self.session_id, operations, fence=fence, now_ms=self._now_ms())
        return await self._enqueue_commit(tree, effects)

    async def multi(self, operations: Sequence[Write]) -> list[Result]:
        tree = self._open_tree()
        try:
            effects = tree.multi(self.session_id, operations, now_ms=self._now_ms())
        except MultiFailed:
            # It may have failed for what an earlier operation did, and that is not kept yet.
            await self._enqueue_commit(tree, Effects())
            raise
        outcomes = await self._enqueue_commit(tree, effects)
        return [outcome for outcome in outcomes if not isinstance(outcome, StoreError)]

    def _open_tree(self) -> DataTree:
        if self._tree is None:
            raise SessionExpired
        return self._tree

    def _enqueue_commit(self, tree: DataTree, effects: Effects) -> asyncio.Future[list[Outcome]]:
        """Done when all that has happened to the tree so far is kept."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Outcome]] = loop.create_future()
        self._pending_batch.zxid = tree.zxid
        self._pending_batch.effects.append(effects)
        self._pending_batch.futures.append(future)
        if self._committing_batch is None and len(self._pending_batch.futures) == 1:
            # Not at once: what other tasks ask for in this round of the loop shares the commit.
            loop.call_soon(self._commit_pending)
        return future

    def _commit_pending(self) -> None:
        if self._committing_batch is not None or not self._pending_batch.futures:
            return
        batch, self._pending_batch = self._pending_batch, _CommitBatch()
        if batch.zxid == self._committed_zxid:
            _complete_batch(batch)
            return
        self._committing_batch = batch
        self._journal_call = self._run_in_thread(
            self._journal.commit, batch.mutations(), batch.zxid
        )
        self._journal_call.add_done_callback(self._on_commit_done)

    def _on_commit_done(self, commit_future: asyncio.Future[Any]) -> None:
        batch, self._committing_batch = self._committing_batch, None
        assert batch is not None
        if commit_future.cancelled() or commit_future.exception() is not None:
            self._expire(batch, None if commit_future.cancelled() else commit_future.exception())
            return
        self._committed_zxid = batch.zxid
        _complete_batch(batch)
        self._commit_pending()

    def _expire(self, failed: _CommitBatch, cause: BaseException | None) -> None:
        logger.error(
            "The metadata store could not commit, and session %d is over: %s",
            self.session_id,
            cause,
            exc_info=None if isinstance(cause, JournalError) else cause,
        )
        pending, self._pending_batch = self._pending_batch, _CommitBatch()
        self._tree = None
        self._notify_listeners(SessionState.EXPIRED)
        for future in (*failed.futures, *pending.futures):
            if not future.done():
                future.set_exception(SessionExpired())

    def _notify_listeners(self, state: SessionState) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.call_soon(listener, state)

    async def _run_exclusively(self, function: Callable[..., Any], *args: object) -> Any:
        """On a thread, after what is under way there; a thread cannot be called back."""
        while self._journal_call is not None and not self._journal_call.done():
            await asyncio.wait([self._journal_call])
        self._journal_call = self._run_in_thread(function, *args)
        return await asyncio.shield(self._journal_call)


def _complete_batch(batch: _CommitBatch) -> None:
    """Watches are called one after another by the loop, so that one that fails stops none.

    The loop keeps the order: a caller goes on after the watches that were called before its answer.
    """
    loop = asyncio.get_running_loop()
    for effects, future in zip(batch.effects, batch.futures, strict=True):
        for call in effects.watch_calls:
            loop.call_soon(call.watch, call.event)
        # A caller that was cancelled does not wait any more.
        if not future.done():
            future.set_result(effects.outcomes)
