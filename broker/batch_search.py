"""Searches batches for one timestamp lookup: inline for few records, else in a worker process.

    search = BatchSearch()
    try:
        offset_for_timestamp(log, timestamp, search)
    except SearchTooLarge as too_large:
        await search.search_in_worker(too_large, searcher)
        ...                                 repeat the lookup from the beginning

The log may change while the worker process reads.  Therefore only the results for single batches
are kept between two attempts.  The key is the header of the batch, which includes its checksum.

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
    """Searches a batch outside of the event loop."""

    async def find_offset(
        self, batch: AnyBatch, query: TimestampQuery, /
    ) -> TimestampAndOffset | None: ...


class SearchTooLarge(Exception):
    """Searching this batch as well would exceed the budget of records to read inline."""

    def __init__(self, batch: AnyBatch, query: TimestampQuery) -> None:
        super().__init__(query)
        self.batch = batch
        self.query = query


class BatchSearch:
    """A function that searches a batch; it raises SearchTooLarge when its budget is used up."""

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
    """The cost in records.  A compressed wrapper of an old format does not state its count."""
    if batch.codec is Codec.NONE:
        return batch.count
    if isinstance(batch, RecordBatch):
        return batch.count + compression_cost(batch.attributes, batch.size_bytes)
    return UNKNOWN_RECORD_COUNT
