"""Looks into batches for one request: within a turn's worth of records, or elsewhere.

    looks = Looks()
    try:
        first_at_or_after(log, timestamp, looks)
    except ManyRecords as many:
        await looks.learn(many, reader)
        ...                                 once more, from the beginning

A log may change while another process reads.  So nothing of a lookup is kept over that but what was
found in a batch, which its header tells from any other, by its checksum at the latest.

Owner: the event loop; one request.
"""

from __future__ import annotations

from typing import Protocol

from odradek.broker.record_reader import RECORDS_PER_TURN
from odradek.protocol.records.batch import HEADER_BYTES, RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.admission.batch_validation import (
    UNTOLD_COUNT,
    holding_cost,
    packing_cost,
)
from odradek.storage.log_lookup import FoundOffset, Sought, found_in


class Reader(Protocol):
    """Whoever reads records."""

    async def found(self, batch: AnyBatch, sought: Sought, /) -> FoundOffset | None: ...


class ManyRecords(Exception):
    """To look into this batch as well would take too long here."""

    def __init__(self, batch: AnyBatch, sought: Sought) -> None:
        super().__init__(sought)
        self.batch = batch
        self.sought = sought


class Looks:
    """A Look, until there are too many records."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, Sought], FoundOffset | None] = {}
        self._left = RECORDS_PER_TURN

    def __call__(self, batch: AnyBatch, sought: Sought) -> FoundOffset | None:
        key = _key(batch, sought)
        if key in self._known:
            return self._known[key]
        self._left -= _cost_of(batch)
        if self._left >= 0:
            self._left -= holding_cost(batch.view, most=self._left)
        if self._left < 0:
            raise ManyRecords(batch, sought)
        return found_in(batch, sought)

    def begin_turn(self) -> None:
        self._left = RECORDS_PER_TURN

    async def learn(self, many: ManyRecords, reader: Reader) -> None:
        found = await reader.found(many.batch, many.sought)
        self._known[_key(many.batch, many.sought)] = found


def _key(batch: AnyBatch, sought: Sought) -> tuple[bytes, Sought]:
    return bytes(batch.view[:HEADER_BYTES]), sought


def _cost_of(batch: AnyBatch) -> int:
    """In records; how many a wrapper of an old format holds, it does not tell."""
    if batch.codec is Codec.NONE:
        return batch.count
    if isinstance(batch, RecordBatch):
        return batch.count + packing_cost(batch.attributes, batch.size_bytes)
    return UNTOLD_COUNT
