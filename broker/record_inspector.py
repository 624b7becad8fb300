"""Reads the records of large batches in a worker process while the event loop serves others.

A time slice on the event loop is enough for ``INLINE_RECORDS_MAX`` records.  The time to read more
of them depends on their number, and a small batch may hold a million.  This process is not the
one that compacts logs: that one may be busy for minutes, and here a client waits.

If the process dies, the call is repeated once in a new process.  If that dies too, the call fails
with a retriable error: there may be batches that kill any process that reads them.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import TypeVar

from odradek.broker.worker_process import WorkerProcess
from odradek.protocol.errors import RequestTimedOut
from odradek.protocol.records.record_set import AnyBatch, batch_at
from odradek.protocol.varint import Buffer
from odradek.storage.timestamp_lookup import TimestampAndOffset, TimestampQuery, find_in_batch
from odradek.storage.validation.append_rules import AppendRules
from odradek.storage.validation.validated_batch import (
    ValidatedBatch,
    ValidationOutcome,
    prevalidate,
)

log = logging.getLogger("kafka.log")

#: The number of records that can be read within a time slice: see time_slice.py.
INLINE_RECORDS_MAX = 1000
_ATTEMPTS = 2

Result = TypeVar("Result")


class RecordInspector:
    """Reads one batch at a time."""

    def __init__(self) -> None:
        self._worker = WorkerProcess()
        self._lock = asyncio.Lock()

    async def validate(
        self, records: memoryview, rules: AppendRules, *, now_ms: int
    ) -> ValidatedBatch:
        """Return the batch with the outcome of its validation."""
        outcome = await self._run_in_worker(validate_in_worker, records, rules, now_ms)
        return ValidatedBatch(records, rules, outcome)

    async def find_offset(
        self, batch: AnyBatch, query: TimestampQuery
    ) -> TimestampAndOffset | None:
        """Search the batch.  Raises CorruptMessage if its records cannot be read."""
        return await self._run_in_worker(find_offset_in_worker, batch.view, query)

    async def _run_in_worker(
        self, function: Callable[..., Result], records: Buffer, *arguments: object
    ) -> Result:
        # Callers that wait for the lock have not copied their records yet.
        async with self._lock:
            record_bytes = bytes(records)
            for _ in range(_ATTEMPTS):
                try:
                    return await self._worker.run(function, record_bytes, *arguments)
                except BrokenExecutor as error:
                    log.warning("Record inspector process died: %s", error)
        raise RequestTimedOut("the record inspector process died")

    def close(self) -> None:
        self._worker.close()


def validate_in_worker(records: bytes, rules: AppendRules, now_ms: int) -> ValidationOutcome:
    """Runs in the worker process."""
    return prevalidate(records, rules, now_ms=now_ms)


def find_offset_in_worker(batch: bytes, query: TimestampQuery) -> TimestampAndOffset | None:
    """Runs in the worker process."""
    return find_in_batch(batch_at(batch, 0), query)
