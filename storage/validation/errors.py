"""Append errors that carry more details than the error code.

Other errors are those of ``odradek.protocol.errors``: MessageTooLarge, CorruptMessage and so on.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.protocol.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, KafkaError
from odradek.protocol.records.legacy_batch import InnerRecordChecksumMismatch


class RecordError(NamedTuple):
    """An entry of ProduceResponse's ``record_errors`` (KIP-467).  Kafka: RecordError."""

    batch_index: int  # index of the record in its batch, from 0
    message: str


class InvalidRecords(InvalidRecord):
    """Some records are invalid, so the whole set is rejected."""

    def __init__(self, record_errors: Sequence[RecordError]) -> None:
        super().__init__(_summary(record_errors))
        self.record_errors = tuple(record_errors)


class InvalidTimestamps(InvalidTimestamp):
    """Some records are invalid, at least one by its timestamp, so the whole set is rejected."""

    def __init__(self, record_errors: Sequence[RecordError]) -> None:
        super().__init__(_summary(record_errors))
        self.record_errors = tuple(record_errors)


class UnexpectedAppendOffset(KafkaError):
    """The leader sent offsets that this follower already has, at least in part."""

    def __init__(self, *, first_offset: int, last_offset: int, next_offset: int) -> None:
        super().__init__(
            f"unexpected offsets {first_offset} to {last_offset}: "
            f"the log end offset is {next_offset}"
        )
        self.first_offset = first_offset
        self.last_offset = last_offset


class UnexpectedLeaderEpoch(KafkaError):
    """The leader sent a batch with a later epoch than its own leader epoch."""


class OffsetsOutOfOrder(KafkaError):
    """The leader sent batches whose offsets do not ascend."""


def validation_error_for(error: CorruptMessage) -> CorruptMessage | InvalidRecord:
    """Return the error for a corrupt record inside a batch whose checksum is correct.

    The error is not CORRUPT_MESSAGE, because a retry would not help.  The exception are records
    with their own checksums (magic 0 and 1), because Kafka returns CORRUPT_MESSAGE for them.
    """
    if isinstance(error, InnerRecordChecksumMismatch):
        return CorruptMessage(str(error))
    return InvalidRecord(f"inconsistent batch: {error}")


def _summary(record_errors: Sequence[RecordError]) -> str:
    index, message = record_errors[0]
    others = f", and {len(record_errors) - 1} more" if len(record_errors) > 1 else ""
    return f"record {index} of the batch: {message}{others}"
