"""The last batches of a producer, remembered across a restart.

A snapshot holds only the last batch of each producer, so that after a restart a retry of the one
before it would be refused as out of order, though it is in the log.  A producer has up to five
requests in flight: when a broker is killed, it sends all of them again.  So the end of the log is
read once more and the batches before each producer's last are taken from there.  (Kafka does not:
its client then has to bump its epoch, or gives up.)

Owner: whoever opens the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.producers.append import BATCHES_KEPT, PACKED_BATCH, ProducerState
from odradek.storage.producers.state import Decision, ProducerStates
from odradek.storage.segment_list import SegmentList

#: How much of the log's end is read: five batches of 16 KB for a dozen producers.
TAIL_BYTES = 1024 * 1024

# Of a batch from a snapshot the timestamp is the producer's last, which may be a marker's.
_TIMESTAMP_POSITION = PACKED_BATCH.size - 8


def recall(producers: ProducerStates, segments: SegmentList, *, end: int) -> None:
    """``producers`` know the log up to ``end``, each at least its last batch."""
    if not len(producers):
        return
    found: dict[int, list[bytes]] = defaultdict(list)
    for batch in _tail(segments, end):
        state = producers.states.get(batch.producer_id)
        is_known = state is not None and batch.producer_epoch == state.epoch
        if is_known and not batch.is_control and batch.is_valid():
            found[batch.producer_id].append(_packed(batch))
    decision = Decision()
    for producer_id, packed in found.items():
        decision.states[producer_id] = _with(producers.states[producer_id], packed)
    producers.apply(decision)


def _tail(segments: SegmentList, end: int) -> Iterator[AnyBatch]:
    """The batches in the last bytes of the log, in order."""
    wanted, tail = TAIL_BYTES, []
    for segment in reversed(segments.between(segments.first.base_offset, end)):
        if wanted <= 0:
            break
        entry = segment.index.entry_after(segment.size_bytes - wanted - 1)
        start = 0 if entry is None or segment.size_bytes <= wanted else entry.position
        tail.append((segment, start))
        wanted -= segment.size_bytes
    for segment, start in reversed(tail):
        with suppress(CorruptMessage):  # whoever reads the batches will be told
            for _, batch in segment.batches(start=start):
                if batch.last_offset < end:
                    yield batch


def _packed(batch: AnyBatch) -> bytes:
    return PACKED_BATCH.pack(
        batch.last_sequence,
        batch.last_offset,
        batch.last_offset - batch.base_offset,
        batch.max_timestamp,
    )


def _with(state: ProducerState, packed: list[bytes]) -> ProducerState:
    """The state with all of these batches, if the last is the one it knows."""
    newest_first = b"".join(reversed(packed[-BATCHES_KEPT:]))
    if not newest_first.startswith(state.packed_batches[:_TIMESTAMP_POSITION] or b"?"):
        return state
    return replace(state, packed_batches=newest_first)
