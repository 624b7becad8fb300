"""One session with ZooKeeper, as kazoo keeps it, seen from the event loop.

Kazoo's client has a thread, which sends, reads and reconnects.  All that it tells goes through one
queue to the loop, in the order in which it happened there: answers, watches, changes of state.

    Answer     what came of a request that ``send`` took
    Notice     a watch was triggered; NONE if it was lost with the connection
    Connected  from now on ``send`` may take requests again; all that it took before and that has
               no answer by now will never have one
    Suspended  the connection is gone, kazoo is looking for another
    Ended      the session is over, or could not begin; nothing comes after that

``send`` refuses a request until the loop has been told of the present connection.  So a request
never overtakes one that was lost with the connection before: they are sent again in order.

What is used of kazoo besides its documented face: ``_call``, which takes a request and the object
to answer to; ``_session_callback``, through which all changes of state go; ``_stopped``, to keep it
from beginning a new session by itself when one has expired; ``_safe_close``, to wait for its end.

Owner: the event loop; ``_Client`` is kazoo's thread's too, with a lock between them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from odradek.controller.store.zookeeper_handler import KazooHandler
from odradek.controller.store.zookeeper_security import sasl_options, tls_context
from odradek.controller.zookeeper_settings import ZooKeeperSettings

# The first is short, since most connections are lost for a moment only; the last is what the Java
# client waits at most.
RECONNECT_DELAY_S = 0.05
RECONNECT_DELAY_MAX_S = 1.0
# How long a server has to answer that it closed the session; it expires anyway.
CLOSE_TIMEOUT_S = 3.0


@dataclass(slots=True)
class ResponseReport:
    """To the request that was sent with it; ``zxid`` is what the server had reached then."""

    pending_request: Any
    outcome: Any = None
    zxid: int = 0


@dataclass(frozen=True, slots=True)
class WatchReport:
    watcher: Any
    event: Any


@dataclass(frozen=True, slots=True)
class ConnectedReport:
    connection: int
    session_id: int


@dataclass(frozen=True, slots=True)
class SuspendedReport:
    zxid: int  # the last that was seen


@dataclass(frozen=True, slots=True)
class SessionEndReport:
    reason: str


ClientReport = ResponseReport | WatchReport | ConnectedReport | SuspendedReport | SessionEndReport


class ZooKeeperClient:
    """From ``start`` to ``stop``; the loop must not end between them."""

    def __init__(
        self, hosts: str, settings: ZooKeeperSettings, on_report: Callable[[ClientReport], None]
    ) -> None:
        self._report_queue = _ReportQueue(asyncio.get_running_loop(), on_report)
        self._handler = KazooHandler(
            self._on_watch_event, tls_context(settings), on_idle=self._report_queue.schedule_drain
        )
        self._client = _SingleSessionClient(
            self._report_queue,
            in_flight_max=settings.max_in_flight_requests,
            hosts=hosts,
            timeout=settings.session_timeout_ms / 1000,
            handler=self._handler,
            sasl_options=sasl_options(settings),
            connection_retry=KazooRetry(
                max_tries=-1, delay=RECONNECT_DELAY_S, max_delay=RECONNECT_DELAY_MAX_S
            ),
        )

    @property
    def credentials(self) -> tuple[int, bytes]:
        """What another connection would have to show to take the session over."""
        session_id, password = self._client.client_id
        return session_id, password

    @property
    def last_error(self) -> OSError | None:
        """Of the attempts to connect."""
        return self._handler.last_error

    def start(self) -> None:
        self._client.start_async()

    def send(self, request: Any, pending_request: object, *, connection: int) -> bool:
        """False if this is not the present connection, and the request is not taken.

        As many as may be in flight go out at once, the others as those are answered.
        """
        return self._client.send(request, pending_request, connection=connection)

    def stop(self) -> None:
        """End the session and kazoo's thread.  Waits for both: to be called off the loop."""
        self._client.end_session()

    def _on_watch_event(self, watcher: Any, event: Any) -> None:
        self._report_queue.put(WatchReport(watcher, event))


class _ReportQueue:
    """From any thread to the loop, in order."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_report: Callable[[ClientReport], None]
    ) -> None:
        self._loop = loop
        self._on_report = on_report
        self._reports: deque[ClientReport] = deque()
        self._is_drain_scheduled = False

    def put(self, report: ClientReport) -> None:
        self._reports.append(report)
        self.schedule_drain()

    def put_deferred(self, report: ClientReport) -> None:
        """To be delivered with what comes next, or when kazoo has nothing else to do."""
        self._reports.append(report)

    def schedule_drain(self) -> None:
        if self._reports and not self._is_drain_scheduled:
            self._is_drain_scheduled = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # First, so that whatever is put from now on either is seen below or calls again.
        self._is_drain_scheduled = False
        try:
            while self._reports:
                self._on_report(self._reports.popleft())
        finally:
            if self._reports and not self._is_drain_scheduled:
                self._is_drain_scheduled = True
                self._loop.call_soon(self._drain)


class _ResponseFuture:
    """What kazoo answers to."""

    __slots__ = ("_client", "_report")

    def __init__(self, client: _SingleSessionClient, pending_request: object) -> None:
        self._client = client
        self._report = ResponseReport(pending_request)

    def set(self, result: Any) -> None:
        """On kazoo's thread, which will wait for something sooner or later."""
        self._client.report_queue.put_deferred(self._complete(result))
        self._client.on_response()

    def set_exception(self, error: Exception) -> None:
        """On any thread."""
        self._client.report_queue.put(self._complete(error))
        self._client.on_response()

    def _complete(self, outcome: Any) -> ResponseReport:
        self._report.outcome = outcome
        self._report.zxid = self._client.last_zxid
        return self._report


class _SingleSessionClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's client, with one session and no other."""

    def __init__(self, report_queue: _ReportQueue, *, in_flight_max: int, **options: Any) -> None:
        self.report_queue = report_queue
        # Held while the state changes, and while requests are added or sent.
        self._state_lock = threading.RLock()
        self._connection_count = 0
        self._is_session_over = False
        self._in_flight_max = in_flight_max
        self._in_flight = 0
        self._send_queue: deque[tuple[Any, _ResponseFuture]] = deque()
        super().__init__(**options)

    def send(self, request: Any, pending_request: object, *, connection: int) -> bool:
        with self._state_lock:
            if not self.connected or connection != self._connection_count:
                return False
            self._send_queue.append((request, _ResponseFuture(self, pending_request)))
            self._send_queued()
            return True

    def on_response(self) -> None:
        """Also when it was lost; on kazoo's thread, so that the next goes without asking."""
        with self._state_lock:
            self._in_flight -= 1
            self._send_queued()

    def _send_queued(self) -> None:
        while self._send_queue and self._in_flight < self._in_flight_max:
            self._in_flight += 1
            self._call(*self._send_queue.popleft())

    def end_session(self) -> None:
        close_timer = threading.Timer(CLOSE_TIMEOUT_S, self.handler.disconnect)
        close_timer.start()
        try:
            if not self.connected:
                self.handler.disconnect()
            self.stop()
            self._safe_close()
        finally:
            close_timer.cancel()
            close_timer.join()
        self.close()

    def _session_callback(self, state: str) -> None:
        with self._state_lock:
            if state == self._state or self._is_session_over:
                super()._session_callback(state)
                return
            zxid = self.last_zxid
            self._send_queue.clear()
            super()._session_callback(state)
            self._report_state(state, zxid)

    def _report_state(self, state: str, zxid: int) -> None:
        if state in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
            self._connection_count += 1
            self.report_queue.put(ConnectedReport(self._connection_count, self._session_id))
        elif state == KeeperState.CONNECTING:
            if self._connection_count:
                self.report_queue.put(SuspendedReport(zxid))
        else:
            self._is_session_over = True
            self._stopped.set()
            self.report_queue.put(SessionEndReport(state))
