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

from odradek.broker.worker import Worker
from odradek.protocol.errors import RequestTimedOut
from odradek.protocol.records.record_set import AnyBatch, batch_at
from odradek.protocol.varint import Buffer
from odradek.storage.admission.checked_batch import CheckedBatch, Verdict, verdict_on
from odradek.storage.admission.rules import AppendRules
from odradek.storage.log_lookup import FoundOffset, Sought, found_in

log = logging.getLogger(__name__)

#: So many are read within a turn: see turns.py.
RECORDS_PER_TURN = 1000
_ATTEMPTS = 2

Returned = TypeVar("Returned")


class RecordReader:
    """Reads one batch after the other."""

    def __init__(self) -> None:
        self._worker = Worker()
        self._turn = asyncio.Lock()

    async def checked(
        self, received: memoryview, rules: AppendRules, *, now_ms: int
    ) -> CheckedBatch:
        """What may be appended of it, or why nothing."""
        verdict = await self._read(check_in_worker, received, rules, now_ms)
        return CheckedBatch(received, rules, verdict)

    async def found(self, batch: AnyBatch, sought: Sought) -> FoundOffset | None:
        """Where in the batch it is; CorruptMessage if that cannot be read."""
        return await self._read(find_in_worker, batch.view, sought)

    async def _read(
        self, call: Callable[..., Returned], records: Buffer, *arguments: object
    ) -> Returned:
        # Those that wait have not copied theirs yet.
        async with self._turn:
            copied = bytes(records)
            for _ in range(_ATTEMPTS):
                try:
                    return await self._worker.run(call, copied, *arguments)
                except BrokenExecutor as death:
                    log.warning("The process that reads records died: %s", death)
        raise RequestTimedOut("the process that reads records died")

    def close(self) -> None:
        self._worker.close()


def check_in_worker(records: bytes, rules: AppendRules, now_ms: int) -> Verdict:
    """In the worker process."""
    return verdict_on(records, rules, now_ms=now_ms)


def find_in_worker(batch: bytes, sought: Sought) -> FoundOffset | None:
    """In the worker process."""
    return found_in(batch_at(batch, 0), sought)
