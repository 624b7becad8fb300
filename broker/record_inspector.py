"""Reads the records of large batches in a process of its own, while the loop serves others.

A turn on the loop is enough for ``RECORDS_PER_TURN``; how long more of them take goes by their
number, and a small batch may hold a million.  It is not the process that compacts, which may be
busy for minutes: whoever waits for this one is a client.

If the process dies, what it was asked is asked once more, of another; then it fails with an error
that clients retry.  There may be batches that kill whoever reads them.

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

log = logging.getLogger(__name__)

#: So many are read within a turn: see turns.py.
INLINE_RECORDS_MAX = 1000
_ATTEMPTS = 2

Result = TypeVar("Result")


class RecordInspector:
    """Reads one batch after the other."""

    def __init__(self) -> None:
        self._worker = WorkerProcess()
        self._lock = asyncio.Lock()

    async def validate(
        self, records: memoryview, rules: AppendRules, *, now_ms: int
    ) -> ValidatedBatch:
        """What may be appended of it, or why nothing."""
        outcome = await self._run_in_worker(validate_in_worker, records, rules, now_ms)
        return ValidatedBatch(records, rules, outcome)

    async def find_offset(
        self, batch: AnyBatch, query: TimestampQuery
    ) -> TimestampAndOffset | None:
        """Where in the batch it is; CorruptMessage if that cannot be read."""
        return await self._run_in_worker(find_offset_in_worker, batch.view, query)

    async def _run_in_worker(
        self, function: Callable[..., Result], records: Buffer, *arguments: object
    ) -> Result:
        # Those that wait have not copied theirs yet.
        async with self._lock:
            record_bytes = bytes(records)
            for _ in range(_ATTEMPTS):
                try:
                    return await self._worker.run(function, record_bytes, *arguments)
                except BrokenExecutor as error:
                    log.warning("The process that reads records died: %s", error)
        raise RequestTimedOut("the process that reads records died")

    def close(self) -> None:
        self._worker.close()


def validate_in_worker(records: bytes, rules: AppendRules, now_ms: int) -> ValidationOutcome:
    """In the worker process."""
    return prevalidate(records, rules, now_ms=now_ms)


def find_offset_in_worker(batch: bytes, query: TimestampQuery) -> TimestampAndOffset | None:
    """In the worker process."""
    return find_in_batch(batch_at(batch, 0), query)
