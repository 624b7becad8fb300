"""A metadata store for many brokers: ZooKeeper, through kazoo.

``zookeeper.connect`` may name a chroot, which is created if it is missing, as Kafka does.  Requests
are pipelined, ``zookeeper.max.in.flight.requests`` at a time, and sent again after a connection was
lost.  Every session has a client of its own, since kazoo's would begin another by itself.

    zookeeper_session.py   what is sent, in which order, and again
    zookeeper_requests.py  operations and answers
    zookeeper_watches.py   who is to be called for what
    zookeeper_client.py    kazoo, whose thread ends there
    zookeeper_handler.py   how it waits and connects

Owner: the event loop; ``run`` is handed in for the one call that waits, the end of a session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from odradek.config.definition import SettingError
from odradek.controller.settings import ZooKeeperSettings
from odradek.controller.store.base import (
    CannotOpen,
    Check,
    Create,
    Exists,
    MetadataStore,
    MultiFailed,
    NodeExists,
    NotPermitted,
    Operation,
    Outcome,
    Read,
    Result,
    SessionExpired,
    SessionListener,
    SessionState,
    StoreError,
    Write,
)
from odradek.controller.store.legal_paths import check_paths
from odradek.controller.store.paths import parents
from odradek.controller.store.zookeeper_requests import Translator, is_too_long
from odradek.controller.store.zookeeper_session import Call, Session

logger = logging.getLogger(__name__)

#: Calls ``fn(*args)`` on a thread.
Run = Callable[..., Awaitable[Any]]


class ZooKeeperStore(MetadataStore):
    """The tree below a chroot of a ZooKeeper; see base.py."""

    def __init__(self, settings: ZooKeeperSettings, *, run: Run) -> None:
        self.session_id = 0
        self._hosts, self._chroot = _hosts_and_chroot(settings)
        self._settings = settings
        self._run = run
        self._session: Session | None = None
        self._listeners: list[SessionListener] = []

    @property
    def credentials(self) -> tuple[int, bytes]:
        """The session's id and password, by which another connection could take it over."""
        return self._live_session().credentials

    def listen(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def open_session(self) -> None:
        assert self._session is None or self._session.is_over, "a session is open"
        await self.close()
        translator = Translator(chroot=self._chroot, set_acl=self._settings.set_acl)
        session = self._session = Session(
            self._hosts, self._settings, translator=translator, on_state=self._tell
        )
        async with contextlib.AsyncExitStack() as undoing:
            undoing.push_async_callback(self.close)
            try:
                await session.begin(timeout_ms=self._settings.connection_timeout_ms)
                await self._create_chroot(session)
            except (CannotOpen, SessionExpired) as failure:
                reason = session.end_reason or failure
                raise CannotOpen(f"ZooKeeper at {self._settings.connect}: {reason}") from failure
            undoing.pop_all()
        self.session_id = session.session_id
        logger.info("Session 0x%x with ZooKeeper at %s", self.session_id, self._settings.connect)
        self._tell(SessionState.CONNECTED)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self.session_id = 0
            session.end()
            await self._run(session.stop)

    async def run(
        self, operations: Sequence[Operation], *, fence: Check | None = None
    ) -> list[Outcome]:
        session = self._live_session()
        check_paths(operations)
        return await _run(session, session.translator, operations, fence)

    async def multi(self, operations: Sequence[Write]) -> list[Result]:
        session = self._live_session()
        check_paths(operations)
        if not operations:
            return []
        if is_too_long(operations):
            raise MultiFailed(0, NotPermitted(operations[0].path))
        answered: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        translator = session.translator

        def deliver(answer: Any, zxid: int) -> None:
            outcome = translator.multi_outcome(operations, answer, zxid)
            if answered.done():
                return
            if isinstance(outcome, StoreError):
                answered.set_exception(outcome)
            else:
                answered.set_result(outcome)

        session.submit([Call(translator.multi(operations), deliver)])
        return await answered

    def _live_session(self) -> Session:
        if self._session is None or self._session.is_over:
            raise SessionExpired
        return self._session

    async def _create_chroot(self, session: Session) -> None:
        """And the nodes above it.  Kazoo says that it is connected before it has authenticated
        itself, so the session has begun only when something is answered."""
        outside = Translator(chroot="", set_acl=self._settings.set_acl)
        paths = [*parents(self._chroot), self._chroot] if self._chroot else []
        creations = [Create(path) for path in paths]
        for outcome in await _run(session, outside, [Exists("/"), *creations], None):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExists):
                raise CannotOpen(f"{outcome.path} cannot be created: {outcome!r}")

    def _tell(self, state: SessionState) -> None:
        if self.session_id:
            for listener in list(self._listeners):
                listener(state)


async def _run(
    session: Session,
    translator: Translator,
    operations: Sequence[Operation],
    fence: Check | None,
) -> list[Outcome]:
    batch = _Batch(len(operations))
    calls = []
    for slot, operation in enumerate(operations):
        if is_too_long([operation]):
            batch.deliver(slot, NotPermitted(operation.path))
        elif fence is None or isinstance(operation, Read):
            calls.append(_call(translator, operation, batch, slot))
        else:
            calls.append(_fenced_call(translator, [fence, operation], batch, slot))
    session.submit(calls)
    return await batch.outcomes


def _call(translator: Translator, operation: Operation, batch: _Batch, slot: int) -> Call:
    def deliver(answer: Any, _zxid: int) -> None:
        batch.deliver(slot, translator.outcome(operation, answer))

    request = translator.request(operation)
    return Call(request, deliver, getattr(request, "watcher", None))


def _fenced_call(translator: Translator, pair: list[Write], batch: _Batch, slot: int) -> Call:
    def deliver(answer: Any, zxid: int) -> None:
        batch.deliver(slot, translator.fenced_outcome(pair, answer, zxid))

    return Call(translator.multi(pair), deliver)


class _Batch:
    """The outcomes of a run, as they come in."""

    def __init__(self, size: int) -> None:
        self.outcomes: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._collected: list[Outcome] = [None] * size
        self._missing = size
        if not size:
            self.outcomes.set_result([])

    def deliver(self, slot: int, outcome: Outcome) -> None:
        self._collected[slot] = outcome
        self._missing -= 1
        if self.outcomes.done():
            return  # nobody waits any more, or the session is over
        if isinstance(outcome, SessionExpired):
            self.outcomes.set_exception(outcome)
        elif not self._missing:
            self.outcomes.set_result(self._collected)


def _hosts_and_chroot(settings: ZooKeeperSettings) -> tuple[str, str]:
    if not settings.connect:
        raise SettingError("zookeeper.connect", None, "must be given")
    hosts, slash, path = settings.connect.partition("/")
    return hosts, (slash + path).rstrip("/")
