"""The dependencies of transactions: clock, producer ids, settings and tasks.  Tests replace them.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.broker.settings.transactions import TransactionSettings


class ProducerIdGenerator(Protocol):
    """Generates producer ids."""

    def generate_producer_id_nowait(self) -> int | None: ...

    async def generate_producer_id(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TransactionContext:
    """Shared by all transactions of a broker."""

    settings: TransactionSettings
    #: The system clock, for timestamps in records.
    now_ms: Callable[[], int]
    producer_id_manager: ProducerIdGenerator
    #: The finalized ``transaction.version`` of the cluster.
    transaction_version: Callable[[], int]
    #: Starts a task with a name.
    start_task: Callable[[Coroutine[Any, Any, None], str], object]
    sleep: Callable[[float], Awaitable[None]]
