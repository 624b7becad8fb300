"""Batches of any magic, back to back: what a segment holds that has outlived an upgrade.

A log whose format was raised keeps its old messages until they expire, so one region of it, and one
answer to a Fetch, may hold magic 0, 1 and 2 in sequence, and end inside a batch.
"""

from odradek.protocol.records.batch import MAGIC, MAGIC_POSITION, Batches, RecordBatch
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.varint import Buffer

AnyBatch = RecordBatch | LegacyBatch


def batches_of_any_magic(buffer: Buffer) -> Batches[AnyBatch]:
    """The whole batches in ``buffer``; nothing is decoded but headers."""
    return Batches(buffer, batch_at)


def batch_at(buffer: Buffer, position: int) -> AnyBatch:
    """The batch at ``position``, by its magic; it must be whole."""
    if len(buffer) - position > MAGIC_POSITION and buffer[position + MAGIC_POSITION] < MAGIC:
        return LegacyBatch(buffer, position)
    return RecordBatch(buffer, position)


def magic_of(batch: AnyBatch) -> int:
    return batch.magic if isinstance(batch, LegacyBatch) else MAGIC
