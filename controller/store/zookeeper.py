"""The metadata store of a cluster: ZooKeeper, accessed through kazoo.  Kafka: ZooKeeperClient.

``zookeeper.connect`` may name a chroot, which is created if it is missing, as in Kafka.  Requests
are pipelined, at most ``zookeeper.max.in.flight.requests`` at a time, and sent again after a
connection loss.  Every session has its own kazoo client, since kazoo would begin a new session
without notice.

    zookeeper_session.py   sends requests in order and resends them after a reconnect
    zookeeper_requests.py  translates operations and responses
    zookeeper_watches.py   one-shot watches
    zookeeper_client.py    the kazoo client and its thread
    zookeeper_handler.py   kazoo's polling and connecting

Owner: the event loop; ``run_in_thread`` runs the one blocking call, the end of a session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from odradek.config.definition import SettingError
from odradek.controller.store.base import (
    CannotOpenSession,
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
from odradek.controller.store.path_validation import check_paths
from odradek.controller.store.paths import parents
from odradek.controller.store.zookeeper_requests import RequestTranslator, exceeds_max_size
from odradek.controller.store.zookeeper_session import PendingRequest, ZooKeeperSession
from odradek.controller.zookeeper_settings import ZooKeeperSettings

logger = logging.getLogger("kafka.zookeeper")

#: Calls ``fn(*args)`` on a thread.
RunInThread = Callable[..., Awaitable[Any]]


class ZooKeeperStore(MetadataStore):
    """The tree below a chroot of a ZooKeeper ensemble; see base.py."""

    def __init__(self, settings: ZooKeeperSettings, *, run_in_thread: RunInThread) -> None:
        self.session_id = 0
        self._hosts, self._chroot = _hosts_and_chroot(settings)
        self._settings = settings
        self._run_in_thread = run_in_thread
        self._session: ZooKeeperSession | None = None
        self._listeners: list[SessionListener] = []

    @property
    def credentials(self) -> tuple[int, bytes]:
        """The session id and password, with which another connection can take over the session."""
        return self._live_session().credentials

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def open_session(self) -> None:
        assert self._session is None or self._session.is_closed, "a session is open"
        await self.close()
        translator = RequestTranslator(chroot=self._chroot, set_acl=self._settings.set_acl)
        session = self._session = ZooKeeperSession(
            self._hosts,
            self._settings,
            translator=translator,
            on_state_change=self._notify_listeners,
        )
        async with contextlib.AsyncExitStack() as on_error:
            on_error.push_async_callback(self.close)
            try:
                await session.open(timeout_ms=self._settings.connection_timeout_ms)
                await self._create_chroot(session)
            except (CannotOpenSession, SessionExpired) as error:
                reason = session.close_reason or error
                raise CannotOpenSession(
                    f"ZooKeeper at {self._settings.connect}: {reason}"
                ) from error
            on_error.pop_all()
        self.session_id = session.session_id
        logger.info(
            "Session establishment complete: ZooKeeper session 0x%x with %s",
            self.session_id,
            self._settings.connect,
        )
        self._notify_listeners(SessionState.CONNECTED)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self.session_id = 0
            session.close()
            await self._run_in_thread(session.stop_client)

    async def run(
        self, operations: Sequence[Operation], *, fence: Check | None = None
    ) -> list[Outcome]:
        session = self._live_session()
        check_paths(operations)
        return await _run_pipelined(session, session.translator, operations, fence)

    async def multi(self, operations: Sequence[Write]) -> list[Result]:
        session = self._live_session()
        check_paths(operations)
        if not operations:
            return []
        if exceeds_max_size(operations):
            raise MultiFailed(0, NotPermitted(operations[0].path))
        results: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        translator = session.translator

        def on_response(response: Any, zxid: int) -> None:
            outcome = translator.to_multi_outcome(operations, response, zxid)
            if results.done():
                return
            if isinstance(outcome, StoreError):
                results.set_exception(outcome)
            else:
                results.set_result(outcome)

        session.submit([PendingRequest(translator.to_multi_request(operations), on_response)])
        return await results

    def _live_session(self) -> ZooKeeperSession:
        if self._session is None or self._session.is_closed:
            raise SessionExpired
        return self._session

    async def _create_chroot(self, session: ZooKeeperSession) -> None:
        """Create the chroot and its parents.  Kazoo reports a connection before it has
        authenticated, so the session is established only when a request is answered."""
        no_chroot = RequestTranslator(chroot="", set_acl=self._settings.set_acl)
        paths = [*parents(self._chroot), self._chroot] if self._chroot else []
        creations = [Create(path) for path in paths]
        for outcome in await _run_pipelined(session, no_chroot, [Exists("/"), *creations], None):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExists):
                raise CannotOpenSession(f"{outcome.path} cannot be created: {outcome!r}")

    def _notify_listeners(self, state: SessionState) -> None:
        if self.session_id:
            for listener in list(self._listeners):
                listener(state)


async def _run_pipelined(
    session: ZooKeeperSession,
    translator: RequestTranslator,
    operations: Sequence[Operation],
    fence: Check | None,
) -> list[Outcome]:
    pipeline = _Pipeline(len(operations))
    requests = []
    for index, operation in enumerate(operations):
        if exceeds_max_size([operation]):
            pipeline.set_outcome(index, NotPermitted(operation.path))
        elif fence is None or isinstance(operation, Read):
            requests.append(_pending_request(translator, operation, pipeline, index))
        else:
            requests.append(
                _fenced_pending_request(translator, [fence, operation], pipeline, index)
            )
    session.submit(requests)
    return await pipeline.outcomes


def _pending_request(
    translator: RequestTranslator, operation: Operation, pipeline: _Pipeline, index: int
) -> PendingRequest:
    def on_response(response: Any, _zxid: int) -> None:
        pipeline.set_outcome(index, translator.to_outcome(operation, response))

    request = translator.to_request(operation)
    return PendingRequest(request, on_response, getattr(request, "watcher", None))


def _fenced_pending_request(
    translator: RequestTranslator, operations: list[Write], pipeline: _Pipeline, index: int
) -> PendingRequest:
    def on_response(response: Any, zxid: int) -> None:
        pipeline.set_outcome(index, translator.to_fenced_outcome(operations, response, zxid))

    return PendingRequest(translator.to_multi_request(operations), on_response)


class _Pipeline:
    """Collects the outcomes of a run."""

    def __init__(self, size: int) -> None:
        self.outcomes: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._collected: list[Outcome] = [None] * size
        self._remaining = size
        if not size:
            self.outcomes.set_result([])

    def set_outcome(self, index: int, outcome: Outcome) -> None:
        self._collected[index] = outcome
        self._remaining -= 1
        if self.outcomes.done():
            return  # the caller was cancelled, or the session has expired
        if isinstance(outcome, SessionExpired):
            self.outcomes.set_exception(outcome)
        elif not self._remaining:
            self.outcomes.set_result(self._collected)


def _hosts_and_chroot(settings: ZooKeeperSettings) -> tuple[str, str]:
    if not settings.connect:
        raise SettingError("zookeeper.connect", None, "must be set")
    hosts, slash, path = settings.connect.partition("/")
    return hosts, (slash + path).rstrip("/")
