"""A consumer with isolation level read_committed, fetch by fetch, as the Java one goes about it.

Each answer of the log comes with the aborted transactions that reach into it, and is judged by
those alone: nothing is remembered from one fetch to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.protocol.records.control_records import ControlRecordType, parse_control_record_type
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic
from odradek.storage.transaction_index import AbortedTxn
from odradek.storage.unified_log import UnifiedLog
from tests.support.logs import bytes_of


def read_committed(log: UnifiedLog, start: int, *, max_bytes: int) -> list[Record]:
    """What is seen from ``start`` to the last stable offset, ``max_bytes`` or a batch at a time."""
    seen: list[Record] = []
    offset, end = start, log.last_stable_offset
    while offset < end:
        region = log.read(offset, max_bytes=max_bytes, max_offset=end)
        batches = list(batches_of_any_magic(bytes_of(region)))
        if not batches:
            break
        fetched_end = batches[-1].next_offset
        aborted = log.collect_aborted_transactions(start=offset, end=fetched_end)
        seen += [record for record in committed_in(batches, aborted) if record.offset >= offset]
        offset = fetched_end
    return seen


def committed_in(batches: Iterable[AnyBatch], aborted: Iterable[AbortedTxn]) -> Iterator[Record]:
    ahead = sorted(aborted, key=lambda each: each.first_offset)
    aborting: set[int] = set()
    for batch in batches:
        while ahead and ahead[0].first_offset <= batch.last_offset:
            aborting.add(ahead.pop(0).producer_id)
        if batch.is_control:
            if any(
                parse_control_record_type(each) is ControlRecordType.ABORT
                for each in batch.records()
            ):
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            yield from batch.records()
