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

from odradek.broker.record_inspector import INLINE_RECORDS_MAX
from odradek.protocol.records.batch import HEADER_BYTES, RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.timestamp_lookup import TimestampAndOffset, TimestampQuery, find_in_batch
from odradek.storage.validation.log_validator import (
    UNKNOWN_RECORD_COUNT,
    compression_cost,
    decompressed_cost,
)


class BatchSearcher(Protocol):
    """Whoever reads records."""

    async def find_offset(
        self, batch: AnyBatch, query: TimestampQuery, /
    ) -> TimestampAndOffset | None: ...


class SearchTooLarge(Exception):
    """To look into this batch as well would take too long here."""

    def __init__(self, batch: AnyBatch, query: TimestampQuery) -> None:
        super().__init__(query)
        self.batch = batch
        self.query = query


class BatchSearch:
    """A Look, until there are too many records."""

    def __init__(self) -> None:
        self._cached_results: dict[tuple[bytes, TimestampQuery], TimestampAndOffset | None] = {}
        self._remaining_records = INLINE_RECORDS_MAX

    def __call__(self, batch: AnyBatch, query: TimestampQuery) -> TimestampAndOffset | None:
        key = _cache_key(batch, query)
        if key in self._cached_results:
            return self._cached_results[key]
        self._remaining_records -= _search_cost(batch)
        if self._remaining_records >= 0:
            self._remaining_records -= decompressed_cost(
                batch.view, max_cost=self._remaining_records
            )
        if self._remaining_records < 0:
            raise SearchTooLarge(batch, query)
        return find_in_batch(batch, query)

    def reset_budget(self) -> None:
        self._remaining_records = INLINE_RECORDS_MAX

    async def search_in_worker(self, too_large: SearchTooLarge, searcher: BatchSearcher) -> None:
        result = await searcher.find_offset(too_large.batch, too_large.query)
        self._cached_results[_cache_key(too_large.batch, too_large.query)] = result


def _cache_key(batch: AnyBatch, query: TimestampQuery) -> tuple[bytes, TimestampQuery]:
    return bytes(batch.view[:HEADER_BYTES]), query


def _search_cost(batch: AnyBatch) -> int:
    """In records; how many a wrapper of an old format holds, it does not tell."""
    if batch.codec is Codec.NONE:
        return batch.count
    if isinstance(batch, RecordBatch):
        return batch.count + compression_cost(batch.attributes, batch.size_bytes)
    return UNKNOWN_RECORD_COUNT
