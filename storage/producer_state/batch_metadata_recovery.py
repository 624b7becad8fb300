"""Restores the metadata of the last five batches of each producer after a restart.

A snapshot holds only the last batch of each producer.  A producer has up to five requests in flight
and sends all of them again when a broker is killed.  With the snapshot alone, a retry of any batch
before the last would be rejected as out of order, although it is in the log.  So this module reads
the end of the log again and takes the earlier batches from there.  (Kafka does not do this: its
client then has to bump its epoch, or fails.)

Owner: the code that opens the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.log_segments import LogSegments
from odradek.storage.producer_state.producer_state_entry import (
    NUM_BATCHES_TO_RETAIN,
    PACKED_BATCH,
    ProducerStateEntry,
)
from odradek.storage.producer_state.producer_state_manager import (
    ProducerAppendInfo,
    ProducerStateManager,
)

#: The size of the log tail to read: five batches of 16 KB for a dozen producers.
TAIL_BYTES = 1024 * 1024

# The timestamp of a batch from a snapshot is the producer's last, which may be that of a marker.
_TIMESTAMP_POSITION = PACKED_BATCH.size - 8


def restore_batch_metadata(
    producer_state_manager: ProducerStateManager, segments: LogSegments, *, end: int
) -> None:
    """Complete the batch metadata of all producers.

    The producer state must cover the log up to ``end``, with at least the last batch of each
    producer.
    """
    if not len(producer_state_manager):
        return
    packed_by_producer: dict[int, list[bytes]] = defaultdict(list)
    for batch in _read_tail_batches(segments, end):
        entry = producer_state_manager.active_producers.get(batch.producer_id)
        is_known = entry is not None and batch.producer_epoch == entry.epoch
        if is_known and not batch.is_control and batch.is_valid():
            packed_by_producer[batch.producer_id].append(_pack_batch(batch))
    append_info = ProducerAppendInfo()
    for producer_id, packed in packed_by_producer.items():
        append_info.updated_entries[producer_id] = _with_batches(
            producer_state_manager.active_producers[producer_id], packed
        )
    producer_state_manager.update(append_info)


def _read_tail_batches(segments: LogSegments, end: int) -> Iterator[AnyBatch]:
    """Yield the batches in the last ``TAIL_BYTES`` of the log, in offset order."""
    remaining_bytes, tail = TAIL_BYTES, []
    for segment in reversed(segments.between(segments.first.base_offset, end)):
        if remaining_bytes <= 0:
            break
        index_entry = segment.offset_index.entry_after(segment.size_bytes - remaining_bytes - 1)
        start = (
            0
            if index_entry is None or segment.size_bytes <= remaining_bytes
            else index_entry.position
        )
        tail.append((segment, start))
        remaining_bytes -= segment.size_bytes
    for segment, start in reversed(tail):
        with suppress(CorruptMessage):  # readers of these batches get the error
            for _, batch in segment.batches(start=start):
                if batch.last_offset < end:
                    yield batch


def _pack_batch(batch: AnyBatch) -> bytes:
    return PACKED_BATCH.pack(
        batch.last_sequence,
        batch.last_offset,
        batch.last_offset - batch.base_offset,
        batch.max_timestamp,
    )


def _with_batches(entry: ProducerStateEntry, packed: list[bytes]) -> ProducerStateEntry:
    """Return the entry with these batches, if the newest is the last batch of the entry."""
    newest_first = b"".join(reversed(packed[-NUM_BATCHES_TO_RETAIN:]))
    if not newest_first.startswith(entry.packed_batches[:_TIMESTAMP_POSITION] or b"?"):
        return entry
    return replace(entry, packed_batches=newest_first)
