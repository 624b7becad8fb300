"""What transactions need of the world: time, ids, settings.  Tests have a world of their own.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.broker.settings.transactions import TransactionSettings


class ProducerIds(Protocol):
    """Where ids come from."""

    def next_nowait(self) -> int | None: ...

    async def next(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TransactionWorld:
    """Shared by all transactions of a broker."""

    settings: TransactionSettings
    #: The system's clock, for what is written down.
    now_ms: Callable[[], int]
    ids: ProducerIds
    #: The ``transaction.version`` that the cluster has agreed on.
    version: Callable[[], int]
    #: Starts a task.
    start: Callable[[Coroutine[Any, Any, None], str], object]
    sleep: Callable[[float], Awaitable[None]]
