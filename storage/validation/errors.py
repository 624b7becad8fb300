"""Why a record set was not appended, where the code alone does not tell all.

Other refusals are those of ``odradek.protocol.errors``: MessageTooLarge, CorruptMessage and so on.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.protocol.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, KafkaError
from odradek.protocol.records.legacy_batch import InnerRecordChecksumMismatch


class RecordError(NamedTuple):
    """A line of ProduceResponse's ``record_errors`` (KIP-467)."""

    batch_index: int  # the record's place in its batch, from 0
    message: str


class InvalidRecords(InvalidRecord):
    """Some records are wrong, and so none of the set is taken."""

    def __init__(self, record_errors: Sequence[RecordError]) -> None:
        super().__init__(_summary(record_errors))
        self.record_errors = tuple(record_errors)


class InvalidTimestamps(InvalidTimestamp):
    """Some records are wrong, one at least by its timestamp, and so none of the set is taken."""

    def __init__(self, record_errors: Sequence[RecordError]) -> None:
        super().__init__(_summary(record_errors))
        self.record_errors = tuple(record_errors)


class UnexpectedAppendOffset(KafkaError):
    """The leader sent what this follower has already, at least in part."""

    def __init__(self, *, first_offset: int, last_offset: int, next_offset: int) -> None:
        super().__init__(
            f"unexpected offsets {first_offset} to {last_offset}: "
            f"the log end offset is {next_offset}"
        )
        self.first_offset = first_offset
        self.last_offset = last_offset


class UnexpectedLeaderEpoch(KafkaError):
    """The leader sent what only a later leader can have written."""


class OffsetsOutOfOrder(KafkaError):
    """The leader sent batches whose offsets do not ascend."""


def validation_error_for(error: CorruptMessage) -> CorruptMessage | InvalidRecord:
    """What to raise for damage inside a batch whose own checksum is right.

    Not CORRUPT_MESSAGE, since it would not help to send it again, except where records have
    checksums of their own, and there because Kafka answers so.
    """
    if isinstance(error, InnerRecordChecksumMismatch):
        return CorruptMessage(str(error))
    return InvalidRecord(f"inconsistent batch: {error}")


def _summary(record_errors: Sequence[RecordError]) -> str:
    index, message = record_errors[0]
    others = f", and {len(record_errors) - 1} more" if len(record_errors) > 1 else ""
    return f"record {index} of the batch: {message}{others}"
