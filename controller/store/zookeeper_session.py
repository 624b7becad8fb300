"""One session of the store with ZooKeeper: requests in order, and again where they were lost.

    waiting   not sent yet: the connection is gone
    sent      given to the client, which has some in flight and the others behind them

When a connection is lost, what was sent goes back to the front of what waits; whether ZooKeeper has
done it nobody knows.  When there is another, first the watches that kazoo has lost are armed again,
so that each is called before any answer that shows what it was for; then all that waits is sent.

Only ZooKeeper says that a session has expired: no timer of ours does.

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

from odradek.controller.settings import ZooKeeperSettings
from odradek.controller.store.base import CannotOpen, SessionState
from odradek.controller.store.zookeeper_client import (
    Answer,
    Connected,
    Ended,
    Notice,
    Report,
    Suspended,
    ZooKeeperClient,
)
from odradek.controller.store.zookeeper_requests import Translator
from odradek.controller.store.zookeeper_watches import CHANGES, Occasion, Watcher

logger = logging.getLogger(__name__)

#: No answers: another report follows, which says what becomes of the request.
LOST = (AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionMovedError)


class Call:
    """A request, and who is told what ZooKeeper answered, and at which zxid.

    ``watcher`` is the one that is left by it, if it is answered, or None.
    """

    __slots__ = ("deliver", "request", "watcher")

    def __init__(
        self, request: Any, deliver: Callable[[Any, int], None], watcher: Watcher | None = None
    ) -> None:
        self.request = request
        self.deliver = deliver
        self.watcher = watcher


class Session:
    """From ``begin`` to its end; ``stop`` is to be called after that, too."""

    def __init__(
        self,
        hosts: str,
        settings: ZooKeeperSettings,
        *,
        translator: Translator,
        on_state: Callable[[SessionState], None],
    ) -> None:
        self.is_over = False
        self.end_reason = ""  # unless it was we who ended it
        self.session_id = 0
        self.translator = translator
        self._client = ZooKeeperClient(hosts, settings, self._receive)
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_state = on_state
        self._connection = 0
        self._seen_zxid = 0  # when the connection was lost
        self._event: Any = None  # of which kazoo gives notice to one watcher after the other
        self._occasion = Occasion()
        self._lost_watchers: list[Watcher] = []
        self._waiting: deque[Call] = deque()
        self._sent: dict[Call, None] = {}  # in order

    @property
    def credentials(self) -> tuple[int, bytes]:
        return self._client.credentials

    async def begin(self, *, timeout_ms: int) -> None:
        """Raises CannotOpen."""
        self._client.start()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._begun
        except TimeoutError:
            cause = self._client.last_failure
            raise CannotOpen(
                f"no answer within {timeout_ms} ms ({cause or 'silence, or no such host'})"
            ) from cause

    def submit(self, calls: Iterable[Call]) -> None:
        """If the session is over, at once answered with that."""
        self._waiting.extend(calls)
        if self.is_over:
            self._fail_all()
        self._send_waiting()

    def end(self) -> None:
        """For this side; what was not answered fails.  Kazoo's part of it ends with ``stop``."""
        self.is_over = True
        self._fail_all()

    def stop(self) -> None:
        """Off the loop: it waits for the server and for kazoo's thread."""
        self._client.stop()

    def _receive(self, report: Report) -> None:
        if self.is_over:
            return
        match report:
            case Answer(asked, outcome, zxid):
                self._take_answer(asked, outcome, zxid)
            case Notice(watcher, event):
                self._take_notice(watcher, event)
            case Connected():
                self._connect(report)
            case Suspended(zxid):
                self._suspend(zxid)
            case Ended(reason):
                self._expire(reason)

    def _take_answer(self, call: Call, outcome: Any, zxid: int) -> None:
        if isinstance(outcome, LOST):
            return
        if isinstance(outcome, SessionExpiredError):
            self._expire("EXPIRED_SESSION")
            return
        self._sent.pop(call, None)
        if call.watcher is not None:
            call.watcher.arm(outcome)
        call.deliver(outcome, zxid)

    def _take_notice(self, watcher: Watcher, event: Any) -> None:
        if event.type == EventType.NONE:
            if watcher.is_armed:
                self._lost_watchers.append(watcher)
            return
        if event is not self._event:
            self._event, self._occasion = event, Occasion()
        self._occasion.fire(watcher, CHANGES[event.type])

    def _connect(self, report: Connected) -> None:
        self._connection = report.connection
        self.session_id = self.translator.session_id = report.session_id
        occasion = Occasion()
        again = [self._arming(watcher, occasion) for watcher in self._lost_watchers]
        self._lost_watchers.clear()
        self._waiting.extendleft(reversed([*again, *self._sent]))
        self._sent.clear()
        if self._begun.done():
            logger.info("Connected to ZooKeeper again, in session 0x%x", self.session_id)
            self._on_state(SessionState.CONNECTED)
        else:
            self._begun.set_result(None)
        self._send_waiting()

    def _suspend(self, zxid: int) -> None:
        self._seen_zxid = zxid
        logger.warning("The connection to ZooKeeper is lost; trying to find it again")
        self._on_state(SessionState.SUSPENDED)

    def _expire(self, reason: str) -> None:
        self.end_reason = f"the session is over ({reason})"
        if not self._begun.done():
            self.is_over = True
            self._begun.set_exception(CannotOpen(self.end_reason))
            return
        logger.warning("ZooKeeper session 0x%x is over (%s)", self.session_id, reason)
        self.end()
        self._on_state(SessionState.EXPIRED)

    def _arming(self, watcher: Watcher, occasion: Occasion) -> Call:
        """It stays armed, unless it has missed something."""
        after_zxid = self._seen_zxid

        def deliver(answer: Any, _zxid: int) -> None:
            if isinstance(answer, SessionExpiredError):
                return
            change = watcher.missed(answer, after_zxid=after_zxid)
            if change is not None:
                occasion.fire(watcher, change)

        return Call(self.translator.arm(watcher), deliver)

    def _send_waiting(self) -> None:
        while self._waiting:
            call = self._waiting[0]
            if not self._client.send(call.request, call, connection=self._connection):
                return
            self._sent[self._waiting.popleft()] = None

    def _fail_all(self) -> None:
        calls = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        for call in calls:
            call.deliver(SessionExpiredError(), 0)
