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

from odradek.controller.settings import ZooKeeperSettings
from odradek.controller.store.zookeeper_access import sasl_options, tls_context
from odradek.controller.store.zookeeper_handler import Handler

# The first is short, since most connections are lost for a moment only; the last is what the Java
# client waits at most.
RECONNECT_DELAY_S = 0.05
RECONNECT_DELAY_MAX_S = 1.0
# How long a server has to answer that it closed the session; it expires anyway.
CLOSE_PATIENCE_S = 3.0


@dataclass(slots=True)
class Answer:
    """To the request that was sent with it; ``zxid`` is what the server had reached then."""

    asked: Any
    outcome: Any = None
    zxid: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    watcher: Any
    event: Any


@dataclass(frozen=True, slots=True)
class Connected:
    connection: int
    session_id: int


@dataclass(frozen=True, slots=True)
class Suspended:
    zxid: int  # the last that was seen


@dataclass(frozen=True, slots=True)
class Ended:
    reason: str


Report = Answer | Notice | Connected | Suspended | Ended


class ZooKeeperClient:
    """From ``start`` to ``stop``; the loop must not end between them."""

    def __init__(
        self, hosts: str, settings: ZooKeeperSettings, receive: Callable[[Report], None]
    ) -> None:
        self._inbox = _Inbox(asyncio.get_running_loop(), receive)
        self._handler = Handler(
            self._notify, tls_context(settings), before_waiting=self._inbox.deliver
        )
        self._client = _Client(
            self._inbox,
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
        session_id, secret = self._client.client_id
        return session_id, secret

    @property
    def last_failure(self) -> OSError | None:
        """Of the attempts to connect."""
        return self._handler.last_failure

    def start(self) -> None:
        self._client.start_async()

    def send(self, request: Any, asked: object, *, connection: int) -> bool:
        """False if this is not the present connection, and the request is not taken.

        As many as may be in flight go out at once, the others as those are answered.
        """
        return self._client.send(request, asked, connection=connection)

    def stop(self) -> None:
        """End the session and kazoo's thread.  Waits for both: to be called off the loop."""
        self._client.end()

    def _notify(self, watcher: Any, event: Any) -> None:
        self._inbox.put(Notice(watcher, event))


class _Inbox:
    """From any thread to the loop, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Callable[[Report], None]) -> None:
        self._loop = loop
        self._receive = receive
        self._reports: deque[Report] = deque()
        self._is_called = False

    def put(self, report: Report) -> None:
        self._reports.append(report)
        self.deliver()

    def put_later(self, report: Report) -> None:
        """To be delivered with what comes next, or when kazoo has nothing else to do."""
        self._reports.append(report)

    def deliver(self) -> None:
        if self._reports and not self._is_called:
            self._is_called = True
            self._loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        # First, so that whatever is put from now on either is seen below or calls again.
        self._is_called = False
        try:
            while self._reports:
                self._receive(self._reports.popleft())
        finally:
            if self._reports and not self._is_called:
                self._is_called = True
                self._loop.call_soon(self._empty)


class _Waiter:
    """What kazoo answers to."""

    __slots__ = ("_answer", "_client")

    def __init__(self, client: _Client, asked: object) -> None:
        self._client = client
        self._answer = Answer(asked)

    def set(self, result: Any) -> None:
        """On kazoo's thread, which will wait for something sooner or later."""
        self._client.inbox.put_later(self._answered(result))
        self._client.answered()

    def set_exception(self, failure: Exception) -> None:
        """On any thread."""
        self._client.inbox.put(self._answered(failure))
        self._client.answered()

    def _answered(self, outcome: Any) -> Answer:
        self._answer.outcome = outcome
        self._answer.zxid = self._client.last_zxid
        return self._answer


class _Client(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's client, with one session and no other."""

    def __init__(self, inbox: _Inbox, *, in_flight_max: int, **options: Any) -> None:
        self.inbox = inbox
        # Held while the state changes, and while requests are added or sent.
        self._changing = threading.RLock()
        self._connection_count = 0
        self._is_over = False
        self._in_flight_max = in_flight_max
        self._in_flight = 0
        self._outbox: deque[tuple[Any, _Waiter]] = deque()
        super().__init__(**options)

    def send(self, request: Any, asked: object, *, connection: int) -> bool:
        with self._changing:
            if not self.connected or connection != self._connection_count:
                return False
            self._outbox.append((request, _Waiter(self, asked)))
            self._send_waiting()
            return True

    def answered(self) -> None:
        """Also when it was lost; on kazoo's thread, so that the next goes without asking."""
        with self._changing:
            self._in_flight -= 1
            self._send_waiting()

    def _send_waiting(self) -> None:
        while self._outbox and self._in_flight < self._in_flight_max:
            self._in_flight += 1
            self._call(*self._outbox.popleft())

    def end(self) -> None:
        impatience = threading.Timer(CLOSE_PATIENCE_S, self.handler.disconnect)
        impatience.start()
        try:
            if not self.connected:
                self.handler.disconnect()
            self.stop()
            self._safe_close()
        finally:
            impatience.cancel()
            impatience.join()
        self.close()

    def _session_callback(self, state: str) -> None:
        with self._changing:
            if state == self._state or self._is_over:
                super()._session_callback(state)
                return
            zxid = self.last_zxid
            self._outbox.clear()
            super()._session_callback(state)
            self._tell(state, zxid)

    def _tell(self, state: str, zxid: int) -> None:
        if state in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
            self._connection_count += 1
            self.inbox.put(Connected(self._connection_count, self._session_id))
        elif state == KeeperState.CONNECTING:
            if self._connection_count:
                self.inbox.put(Suspended(zxid))
        else:
            self._is_over = True
            self._stopped.set()
            self.inbox.put(Ended(state))
