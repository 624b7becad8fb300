"""The metadata store of a single broker: the tree in memory, written through to a journal on disk.

An operation is done in memory when it arrives, so every later operation sees it.  It completes, and
its watches are called, only when everything it did or saw is on disk:

    pending      operations that are done in memory, in order
    committing   operations whose changes are being committed, off the loop

Operations that arrive during a commit are pending and share the next commit.  Reads are pending
too, behind the writes that they may have seen.

When a commit fails, memory is ahead of the disk, so the session expires: all committing and pending
operations fail with SessionExpired, and so do all later ones.  Some of their changes may be on
disk.  ``open_session`` then reads the file again, or raises a JournalError if it cannot be used.

Ephemeral znodes are never written, so they end with the session, however it ends.  There is one
session at a time.  Its beginning is a change with its own zxid, so a zxid is never used twice.

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

logger = logging.getLogger("kafka.zookeeper")

#: Calls ``fn(*args)`` on a thread.  Returns a future, so a commit needs no task to await it.
RunInThread = Callable[..., asyncio.Future[Any]]


class Journal(Protocol):
    """Persists changes; journal.py has the implementation."""

    def open(self) -> DataTree: ...

    def commit(self, mutations: Iterable[Mutation], zxid: int) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _CommitBatch:
    """The content of one commit; ``effects`` and ``futures`` in pairs, in the order of arrival."""

    zxid: int = 0
    effects: list[Effects] = field(default_factory=list)
    futures: list[asyncio.Future[list[Outcome]]] = field(default_factory=list)

    def mutations(self) -> list[Mutation]:
        last = {
            path: mutation for each in self.effects for path, mutation in each.mutations.items()
        }
        return list(last.values())


class EmbeddedStore(MetadataStore):
    """A store in this process; the module docstring says when an operation completes."""

    def __init__(
        self, journal: Journal, *, run_in_thread: RunInThread, now_ms: Callable[[], int]
    ) -> None:
        self.session_id = 0
        self._journal = journal
        self._run_in_thread = run_in_thread
        self._now_ms = now_ms
        self._listeners: list[SessionListener] = []
        self._tree: DataTree | None = None  # None unless a session is open
        self._committed_zxid = 0
        self._pending_batch = _CommitBatch()
        self._committing_batch: _CommitBatch | None = None
        self._journal_call: asyncio.Future[Any] | None = None  # the last call of the journal

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
        """Complete all earlier operations, then close the journal."""
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
            # It may have failed because of an earlier operation that is not on disk yet.
            await self._enqueue_commit(tree, Effects())
            raise
        outcomes = await self._enqueue_commit(tree, effects)
        return [outcome for outcome in outcomes if not isinstance(outcome, StoreError)]

    def _open_tree(self) -> DataTree:
        if self._tree is None:
            raise SessionExpired
        return self._tree

    def _enqueue_commit(self, tree: DataTree, effects: Effects) -> asyncio.Future[list[Outcome]]:
        """Return a future that completes when all changes of the tree so far are on disk."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Outcome]] = loop.create_future()
        self._pending_batch.zxid = tree.zxid
        self._pending_batch.effects.append(effects)
        self._pending_batch.futures.append(future)
        if self._committing_batch is None and len(self._pending_batch.futures) == 1:
            # Deferred: operations of other tasks in this iteration of the loop share the commit.
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
            "Session %d expired: the metadata store could not commit: %s",
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
        """Run on a thread, after the call in progress: a call on a thread cannot be cancelled."""
        while self._journal_call is not None and not self._journal_call.done():
            await asyncio.wait([self._journal_call])
        self._journal_call = self._run_in_thread(function, *args)
        return await asyncio.shield(self._journal_call)


def _complete_batch(batch: _CommitBatch) -> None:
    """Schedule the watch calls on the loop one by one, so a failing watch does not stop the others.

    The loop keeps the order: a caller resumes after the watches that precede its outcome.
    """
    loop = asyncio.get_running_loop()
    for effects, future in zip(batch.effects, batch.futures, strict=True):
        for call in effects.watch_calls:
            loop.call_soon(call.watch, call.event)
        # A cancelled caller does not wait any more.
        if not future.done():
            future.set_result(effects.outcomes)
