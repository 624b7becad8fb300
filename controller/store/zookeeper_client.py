"""One session with ZooKeeper through a kazoo client, for use by the event loop.

The kazoo client has a thread, which sends, reads and reconnects.  Its reports pass through one
queue to the loop, in the order in which the events happened on the thread:

    ResponseReport    the outcome of a request that ``send`` took
    WatchReport       a watch was triggered; event type NONE if it was lost with the connection
    ConnectedReport   ``send`` takes requests again; requests that it took before and that have no
                      response by now will never get one
    SuspendedReport   the connection is lost, kazoo is reconnecting
    SessionEndReport  the session is over, or could not begin; no report follows

``send`` rejects requests until the loop has processed the ConnectedReport of the current
connection.  A new request therefore never overtakes requests that were lost with the previous
connection; they are sent again in order.

Parts of kazoo used beyond its public interface: ``_call``, which takes a request and the object
that receives the response; ``_session_callback``, which is called for all state changes;
``_stopped``, to prevent kazoo from beginning a new session when one has expired; ``_safe_close``,
to wait for its end.

Owner: the event loop; kazoo's thread also uses ``_SingleSessionClient``, under its lock.
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

# The first delay is short, since most connection losses are brief; the maximum is that of the Java
# client.
RECONNECT_DELAY_S = 0.05
RECONNECT_DELAY_MAX_S = 1.0
# How long a server may take to confirm the close of a session; without it the session expires.
CLOSE_TIMEOUT_S = 3.0


@dataclass(slots=True)
class ResponseReport:
    """The outcome of a request; ``zxid`` is the last zxid of the server at that time."""

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
    zxid: int  # the last one seen


@dataclass(frozen=True, slots=True)
class SessionEndReport:
    reason: str


ClientReport = ResponseReport | WatchReport | ConnectedReport | SuspendedReport | SessionEndReport


class ZooKeeperClient:
    """A kazoo client from ``start`` to ``stop``; the loop must not end between them."""

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
        """The session id and password, with which another connection can take over the session."""
        session_id, password = self._client.client_id
        return session_id, password

    @property
    def last_error(self) -> OSError | None:
        """The last error of an attempt to connect."""
        return self._handler.last_error

    def start(self) -> None:
        self._client.start_async()

    def send(self, request: Any, pending_request: object, *, connection: int) -> bool:
        """Return False, without taking the request, if this is not the current connection.

        Requests up to the in-flight limit are sent at once, the others as responses arrive.
        """
        return self._client.send(request, pending_request, connection=connection)

    def stop(self) -> None:
        """End the session and kazoo's thread.  Call it off the loop: it waits for both."""
        self._client.end_session()

    def _on_watch_event(self, watcher: Any, event: Any) -> None:
        self._report_queue.put(WatchReport(watcher, event))


class _ReportQueue:
    """Passes reports from any thread to the loop, in order."""

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
        """Deliver ``report`` with the next one, or when kazoo is idle."""
        self._reports.append(report)

    def schedule_drain(self) -> None:
        if self._reports and not self._is_drain_scheduled:
            self._is_drain_scheduled = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # Reset the flag first: a report that is put from now on is seen below or schedules again.
        self._is_drain_scheduled = False
        try:
            while self._reports:
                self._on_report(self._reports.popleft())
        finally:
            if self._reports and not self._is_drain_scheduled:
                self._is_drain_scheduled = True
                self._loop.call_soon(self._drain)


class _ResponseFuture:
    """The object that receives the response from kazoo.  kazoo: AsyncResult."""

    __slots__ = ("_client", "_report")

    def __init__(self, client: _SingleSessionClient, pending_request: object) -> None:
        self._client = client
        self._report = ResponseReport(pending_request)

    def set(self, result: Any) -> None:
        """Runs on kazoo's thread, which drains the queue before it next waits."""
        self._client.report_queue.put_deferred(self._complete(result))
        self._client.on_response()

    def set_exception(self, error: Exception) -> None:
        """Runs on any thread."""
        self._client.report_queue.put(self._complete(error))
        self._client.on_response()

    def _complete(self, outcome: Any) -> ResponseReport:
        self._report.outcome = outcome
        self._report.zxid = self._client.last_zxid
        return self._report


class _SingleSessionClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A kazoo client with exactly one session."""

    def __init__(self, report_queue: _ReportQueue, *, in_flight_max: int, **options: Any) -> None:
        self.report_queue = report_queue
        # Held while the state changes, and while requests are queued or sent.
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
        """Runs on kazoo's thread, also when a request is lost; sends the next request at once."""
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
