"""One session of the store with ZooKeeper: sends requests in order and resends the lost ones.

    _send_queue   requests that are not sent yet because there is no connection
    _in_flight    requests that the client has taken, in order; it sends up to its in-flight limit

When a connection is lost, the requests in flight go back to the front of the queue; it is unknown
whether ZooKeeper has executed them.  After a reconnect, the watches that kazoo has lost are
registered again first, so each of them is called before any response that shows its change.  Then
the queue is sent.

Only ZooKeeper decides that a session has expired; this side has no timer for it.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.protocol.states import EventType

from odradek.controller.store.base import CannotOpenSession, SessionState
from odradek.controller.store.zookeeper_client import (
    ClientReport,
    ConnectedReport,
    ResponseReport,
    SessionEndReport,
    SuspendedReport,
    WatchReport,
    ZooKeeperClient,
)
from odradek.controller.store.zookeeper_requests import RequestTranslator
from odradek.controller.store.zookeeper_watches import WATCH_EVENT_TYPES, Watcher, WatchTrigger
from odradek.controller.zookeeper_settings import ZooKeeperSettings

logger = logging.getLogger("kafka.zookeeper")

#: These are not responses: another report follows and decides what happens to the request.
CONNECTION_ERRORS = (AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionMovedError)


class PendingRequest:
    """A request with the callback for its response and the zxid of the response.

    ``watcher`` is the watcher that a successful response arms, or None.
    """

    __slots__ = ("on_response", "request", "watcher")

    def __init__(
        self, request: Any, on_response: Callable[[Any, int], None], watcher: Watcher | None = None
    ) -> None:
        self.request = request
        self.on_response = on_response
        self.watcher = watcher


class ZooKeeperSession:
    """A session from ``open`` to its end; ``stop_client`` must be called after the end, too."""

    def __init__(
        self,
        hosts: str,
        settings: ZooKeeperSettings,
        *,
        translator: RequestTranslator,
        on_state_change: Callable[[SessionState], None],
    ) -> None:
        self.is_closed = False
        self.close_reason = ""  # empty if this side closed the session
        self.session_id = 0
        self.translator = translator
        self._client = ZooKeeperClient(hosts, settings, self._on_report)
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_state_change = on_state_change
        self._connection = 0
        self._last_seen_zxid = 0  # at the time of the last connection loss
        self._watched_event: Any = None  # kazoo delivers one event to its watchers one by one
        self._watch_trigger = WatchTrigger()
        self._lost_watchers: list[Watcher] = []
        self._send_queue: deque[PendingRequest] = deque()
        self._in_flight: dict[PendingRequest, None] = {}  # in order

    @property
    def credentials(self) -> tuple[int, bytes]:
        return self._client.credentials

    async def open(self, *, timeout_ms: int) -> None:
        """Raises CannotOpenSession."""
        self._client.start()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._opened
        except TimeoutError:
            cause = self._client.last_error
            raise CannotOpenSession(
                f"no response in {timeout_ms} ms"
                f" ({cause or 'server not responding, or unknown host'})"
            ) from cause

    def submit(self, pending_requests: Iterable[PendingRequest]) -> None:
        """Send the requests; if the session is closed, fail them at once."""
        self._send_queue.extend(pending_requests)
        if self.is_closed:
            self._fail_pending()
        self._send_queued()

    def close(self) -> None:
        """Fail all requests without a response.  Kazoo's side ends with ``stop_client``."""
        self.is_closed = True
        self._fail_pending()

    def stop_client(self) -> None:
        """Call this off the loop: it waits for the server and for kazoo's thread."""
        self._client.stop()

    def _on_report(self, report: ClientReport) -> None:
        if self.is_closed:
            return
        match report:
            case ResponseReport(pending_request, outcome, zxid):
                self._on_response(pending_request, outcome, zxid)
            case WatchReport(watcher, event):
                self._on_watch_event(watcher, event)
            case ConnectedReport():
                self._on_connected(report)
            case SuspendedReport(zxid):
                self._on_suspended(zxid)
            case SessionEndReport(reason):
                self._expire(reason)

    def _on_response(self, pending_request: PendingRequest, outcome: Any, zxid: int) -> None:
        if isinstance(outcome, CONNECTION_ERRORS):
            return
        if isinstance(outcome, SessionExpiredError):
            self._expire("EXPIRED_SESSION")
            return
        self._in_flight.pop(pending_request, None)
        if pending_request.watcher is not None:
            pending_request.watcher.arm(outcome)
        pending_request.on_response(outcome, zxid)

    def _on_watch_event(self, watcher: Watcher, event: Any) -> None:
        if event.type == EventType.NONE:
            if watcher.is_armed:
                self._lost_watchers.append(watcher)
            return
        if event is not self._watched_event:
            self._watched_event, self._watch_trigger = event, WatchTrigger()
        self._watch_trigger.fire(watcher, WATCH_EVENT_TYPES[event.type])

    def _on_connected(self, report: ConnectedReport) -> None:
        self._connection = report.connection
        self.session_id = self.translator.session_id = report.session_id
        trigger = WatchTrigger()
        rearming = [self._rearm_request(watcher, trigger) for watcher in self._lost_watchers]
        self._lost_watchers.clear()
        self._send_queue.extendleft(reversed([*rearming, *self._in_flight]))
        self._in_flight.clear()
        if self._opened.done():
            logger.info("Reconnected to ZooKeeper, session 0x%x", self.session_id)
            self._on_state_change(SessionState.CONNECTED)
        else:
            self._opened.set_result(None)
        self._send_queued()

    def _on_suspended(self, zxid: int) -> None:
        self._last_seen_zxid = zxid
        logger.warning("Connection to ZooKeeper lost; reconnecting")
        self._on_state_change(SessionState.SUSPENDED)

    def _expire(self, reason: str) -> None:
        self.close_reason = f"session ended: {reason}"
        if not self._opened.done():
            self.is_closed = True
            self._opened.set_exception(CannotOpenSession(self.close_reason))
            return
        logger.warning("Session expired: ZooKeeper session 0x%x (%s)", self.session_id, reason)
        self.close()
        self._on_state_change(SessionState.EXPIRED)

    def _rearm_request(self, watcher: Watcher, watch_trigger: WatchTrigger) -> PendingRequest:
        """Register the watch again; it stays armed unless the response shows a missed change."""
        after_zxid = self._last_seen_zxid

        def on_response(response: Any, _zxid: int) -> None:
            if isinstance(response, SessionExpiredError):
                return
            missed = watcher.missed_event(response, after_zxid=after_zxid)
            if missed is not None:
                watch_trigger.fire(watcher, missed)

        return PendingRequest(self.translator.to_watch_request(watcher), on_response)

    def _send_queued(self) -> None:
        while self._send_queue:
            pending = self._send_queue[0]
            if not self._client.send(pending.request, pending, connection=self._connection):
                return
            self._in_flight[self._send_queue.popleft()] = None

    def _fail_pending(self) -> None:
        unanswered = [*self._in_flight, *self._send_queue]
        self._in_flight.clear()
        self._send_queue.clear()
        for pending in unanswered:
            pending.on_response(SessionExpiredError(), 0)
