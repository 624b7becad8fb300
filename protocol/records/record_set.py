"""Consecutive batches of any magic, as in a segment of a log that was upgraded.

A log whose format was upgraded keeps its old messages until they expire. A region of it, and a
response to a Fetch, may therefore hold magic 0, 1 and 2 in sequence, and end inside a batch.
"""

from odradek.protocol.records.batch import MAGIC, MAGIC_POSITION, Batches, RecordBatch
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.varint import Buffer

AnyBatch = RecordBatch | LegacyBatch


def batches_of_any_magic(buffer: Buffer) -> Batches[AnyBatch]:
    """Iterate over the whole batches in ``buffer``; only headers are decoded."""
    return Batches(buffer, batch_at)


def batch_at(buffer: Buffer, position: int) -> AnyBatch:
    """Return a view of the batch at ``position``, by its magic; it must be complete."""
    if len(buffer) - position > MAGIC_POSITION and buffer[position + MAGIC_POSITION] < MAGIC:
        return LegacyBatch(buffer, position)
    return RecordBatch(buffer, position)


def magic_of(batch: AnyBatch) -> int:
    return batch.magic if isinstance(batch, LegacyBatch) else MAGIC
