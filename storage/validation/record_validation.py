"""Validates the records inside a batch: keys in compacted topics, and timestamps in range.

Kafka: LogValidator.validateRecord and validateTimestamp.

A record of magic 0 has no timestamp; a missing timestamp is always in range.  With log append time
the range does not apply, but a producer must not mark its batch as log append time.

Invariant: records that pass can be read, and can be rewritten by compaction.
"""

from typing import NamedTuple

from odradek.protocol.errors import CorruptMessage, InvalidRecord
from odradek.protocol.records.record import NO_TIMESTAMP, TimestampType
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.validation.append_rules import AppendRules
from odradek.storage.validation.errors import (
    InvalidRecords,
    InvalidTimestamps,
    RecordError,
    validation_error_for,
)

# A small compressed batch may hold millions of records, and all of them may be invalid.
RECORD_ERRORS_MAX = 10_000

_ANY_TIMESTAMP = (-(2**63), 2**63 - 1)
_NO_TIMESTAMP_ALLOWED = (1, 0)
_TIMESTAMP_MAX = 2**63 - 2  # the delta from NO_TIMESTAMP to a later one would not fit 64 bits


def validate_records(batch: AnyBatch, rules: AppendRules, *, now_ms: int) -> int:
    """Validate every record and return the largest timestamp."""
    try:
        return _check_records(batch, rules, now_ms)
    except CorruptMessage as error:
        raise validation_error_for(error) from error


class _TimestampRange(NamedTuple):
    """The allowed timestamps; ``no_timestamp`` is None if a missing timestamp is not allowed."""

    earliest: int
    latest: int
    no_timestamp: int | None
    reason: str


def _check_records(batch: AnyBatch, rules: AppendRules, now_ms: int) -> int:
    allowed_range = _allowed_timestamps(batch, rules, now_ms)
    earliest, latest, no_timestamp, _ = allowed_range
    needs_key = rules.is_compacted
    largest = NO_TIMESTAMP
    for _, timestamp, key, _, _ in batch.records():
        has_valid_timestamp = earliest <= timestamp <= latest or timestamp == no_timestamp
        if not has_valid_timestamp or (needs_key and key is None):
            raise _validation_error(batch, allowed_range, needs_key=needs_key)
        if timestamp > largest:
            largest = timestamp
    return largest


def _allowed_timestamps(batch: AnyBatch, rules: AppendRules, now_ms: int) -> _TimestampRange:
    claims_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    if claims_append_time and (rules.is_log_append_time or batch.max_timestamp == NO_TIMESTAMP):
        return _TimestampRange(
            *_NO_TIMESTAMP_ALLOWED, None, "is marked as log append time, which only the broker sets"
        )
    if rules.is_log_append_time:
        return _TimestampRange(*_ANY_TIMESTAMP, None, "")
    earliest = max(0, now_ms - rules.timestamp_before_max_ms)
    latest = min(_TIMESTAMP_MAX, now_ms + rules.timestamp_after_max_ms)
    return _TimestampRange(
        earliest, latest, NO_TIMESTAMP, f"is not between {earliest} and {latest}"
    )


def _validation_error(
    batch: AnyBatch, allowed_range: _TimestampRange, *, needs_key: bool
) -> InvalidRecord | InvalidTimestamps:
    """Return an error that lists the invalid records, at most ``RECORD_ERRORS_MAX``."""
    error_type: type[InvalidRecords | InvalidTimestamps] = InvalidRecords
    errors: list[RecordError] = []
    for index, (_, timestamp, key, _, _) in enumerate(batch.records()):
        if needs_key and key is None:
            errors.append(RecordError(index, "no key: a compacted topic requires a key"))
        elif (
            not allowed_range.earliest <= timestamp <= allowed_range.latest
            and timestamp != allowed_range.no_timestamp
        ):
            errors.append(RecordError(index, f"timestamp {timestamp} {allowed_range.reason}"))
            error_type = InvalidTimestamps
        if len(errors) == RECORD_ERRORS_MAX:
            break
    return error_type(errors)
