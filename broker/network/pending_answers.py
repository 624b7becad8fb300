"""What becomes of requests on the core loop, and the answers that must be waited for.

Each of those has a task of its own.  Whatever fails ends here: it closes one connection.

A peer that goes away does not stop them, as in Kafka: what the request began (a write that waits
for its replicas, a member that joins) goes on, and only the answer is dropped.  They are cancelled
when the broker stops and they take too long.

Owner: the core loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from odradek.broker.call import Answerer, Disconnect, Parts, Peer
from odradek.protocol.errors import DecodeError

log = logging.getLogger(__name__)

Outcome = Parts | Disconnect | DecodeError | None
Starter = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]

#: Of what was logged already.
FAILED = Disconnect("the request failed")
_FAILED = "A request from %s failed; its connection is closed"


def outcome_of(
    answerer: Answerer, frame: memoryview, peer: Peer
) -> Outcome | Awaitable[Parts | None]:
    """The answer, or why there is none; for whoever cannot be raised to."""
    try:
        return answerer(frame, peer)
    except (Disconnect, DecodeError) as broken:
        return broken
    except Exception:
        log.exception(_FAILED, peer.connection_id)
        return FAILED


class PendingAnswers:
    """The handlers at work."""

    def __init__(self, start: Starter) -> None:
        """``start`` makes a task of what it is given, and names it."""
        self._start = start
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def wait(
        self, answer: Awaitable[Parts | None], peer: Peer, deliver: Callable[[Outcome], None]
    ) -> None:
        """Call ``deliver`` with what becomes of it, unless it is cancelled."""
        work = self._outcome(answer, peer, deliver)
        task = self._start(work, f"request from {peer.connection_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        """Returns when all have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _outcome(
        self, answer: Awaitable[Parts | None], peer: Peer, deliver: Callable[[Outcome], None]
    ) -> None:
        try:
            outcome: Outcome = await answer
        except (Disconnect, DecodeError) as broken:
            outcome = broken
        except Exception:
            log.exception(_FAILED, peer.connection_id)
            outcome = FAILED
        deliver(outcome)
