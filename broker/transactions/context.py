"""What transactions need of the world: time, ids, settings.  Tests have a world of their own.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.broker.settings.transactions import TransactionSettings


class ProducerIdGenerator(Protocol):
    """Where ids come from."""

    def generate_producer_id_nowait(self) -> int | None: ...

    async def generate_producer_id(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TransactionContext:
    """Shared by all transactions of a broker."""

    settings: TransactionSettings
    #: The system's clock, for what is written down.
    now_ms: Callable[[], int]
    producer_id_manager: ProducerIdGenerator
    #: The ``transaction.version`` that the cluster has agreed on.
    transaction_version: Callable[[], int]
    #: Starts a task.
    start_task: Callable[[Coroutine[Any, Any, None], str], object]
    sleep: Callable[[float], Awaitable[None]]
