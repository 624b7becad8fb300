"""The record sets that Kafka was sent, appended by us; and where we mean to answer differently."""

from odradek.config.definition import ConfigSource
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from odradek.protocol.records.batch import RecordBatch
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.settings import TopicSettings
from odradek.storage.validation.append_rules import append_rules_for
from odradek.storage.validation.errors import InvalidRecords, InvalidTimestamps
from odradek.storage.validation.log_validator import validate_produce_records
from odradek.storage.validation.offset_assignment import validate_and_assign_offsets
from tests.support.produce_answers import ProduceAnswer

# A record that nobody looks into may be anything; docs/validation.md says so.
UNCHECKED = {
    "inside: an offset twice, compressed": ErrorCode.NONE,
    "inside: a record missing, compressed": ErrorCode.NONE,
    "inside: a record too many, compressed": ErrorCode.NONE,
    "inside: not what the codec wrote": ErrorCode.NONE,
}
# Kafka fails in a way it did not expect; we know what is wrong.
NAMED = {
    "codec: unknown": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "codec: unknown, before version 7": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "codec: negative timestamp rewritten": ErrorCode.INVALID_TIMESTAMP,
    "inside: an offset twice, compressed; compacted": ErrorCode.INVALID_RECORD,
    "inside: not what the codec wrote; compacted": ErrorCode.INVALID_RECORD,
    "old damage: unknown codec": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "old damage: not what the codec wrote": ErrorCode.INVALID_RECORD,
    "old damage: fields longer than the message": ErrorCode.CORRUPT_MESSAGE,
}
# Kafka takes what its cleaner, its consumers or another topic's codec could then not cope with.
STRICTER = {
    "producer: id without epoch": ErrorCode.INVALID_PRODUCER_EPOCH,
    "producer: id below none": ErrorCode.INVALID_RECORD,
    "producer: only an id, below none": ErrorCode.INVALID_RECORD,
    "producer: transactional without id": ErrorCode.INVALID_RECORD,
    "timestamp: below none, compacted": ErrorCode.INVALID_TIMESTAMP,
    "inside: an offset twice; compacted": ErrorCode.INVALID_RECORD,
    "old damage: bytes behind the value": ErrorCode.INVALID_RECORD,
}

DIFFERENCES = {**UNCHECKED, **NAMED, **STRICTER}
#: Taken by both, but Kafka puts the header right after looking at the records.
STORED_OTHERWISE = {"timestamp: wrong largest"}

FIRST_VERSION_WITH_RECORD_ERRORS = 8


class Replayed:
    """What we make of a set; ``stored`` is empty where it was refused."""

    def __init__(self, asked: ProduceAnswer) -> None:
        self.error_code = ErrorCode.NONE.code
        self.bad_records: tuple[int, ...] = ()
        self.stored = b""
        rules = append_rules_for(TopicSettings.read({ConfigSource.TOPIC: dict(asked.topic)}))
        records = bytearray(asked.sent)
        try:
            validate_produce_records(records, version=asked.version)
            admitted = validate_and_assign_offsets(
                records,
                rules,
                next_offset=0,
                leader_epoch=0,
                origin=AppendOrigin.CLIENT,
                now_ms=_append_time_ms(asked) if rules.is_log_append_time else asked.now_ms,
            )
        except KafkaError as refusal:
            self.error_code = refusal.error_code.code
            is_told = asked.version >= FIRST_VERSION_WITH_RECORD_ERRORS
            if is_told and isinstance(refusal, InvalidRecords | InvalidTimestamps):
                self.bad_records = tuple(error.batch_index for error in refusal.record_errors)
        else:
            self.stored = b"".join(admitted.buffers)


def _append_time_ms(asked: ProduceAnswer) -> int:
    """Old requests are not told the time, but it is in what was stored."""
    return RecordBatch(asked.stored).max_timestamp if asked.stored else asked.now_ms


def stored_facts(stored: bytes) -> list[object]:
    """All but what depends on how well a compressor does."""
    if not stored:
        return []
    batch = RecordBatch(stored)
    batch.check_crc()
    return [
        len(stored) == batch.size_bytes,
        batch.base_offset,
        batch.partition_leader_epoch,
        batch.attributes,
        batch.last_offset_delta,
        (batch.base_timestamp, batch.max_timestamp),
        (batch.producer_id, batch.producer_epoch, batch.base_sequence),
        list(batch),
    ]
