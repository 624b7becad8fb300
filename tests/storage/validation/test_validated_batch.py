"""Record sets validated before the append give the same result as those validated by it."""

import pickle

import pytest

from odradek.config.definition import ConfigSource
from odradek.protocol.errors import InvalidRecord, KafkaError
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.record import Record
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.settings import TopicSettings
from odradek.storage.validation.append_rules import append_rules_for
from odradek.storage.validation.log_validator import UNKNOWN_RECORD_COUNT, validation_cost
from odradek.storage.validation.offset_assignment import validate_and_assign_offsets
from odradek.storage.validation.validated_batch import ValidatedBatch, prevalidate
from tests.support.batches import batch_around, batch_of
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import NOW_MS, opened, records_batch
from tests.support.produce_answers import saved_answers

SETS = {
    response.name: (
        append_rules_for(TopicSettings.read({ConfigSource.TOPIC: dict(response.topic)})),
        response.sent,
        response.now_ms,
    )
    for response in saved_answers()
}
LATER_MS = 5000


def rules_of(**settings):
    return append_rules_for(TopicSettings(**settings))


PLAIN = rules_of()
COMPACTED = rules_of(cleanup_policy=("compact",))
LZ4 = rules_of(compression_type="lz4")
THREE = records_batch(b"a", b"b", b"c")


def outcome(records, rules, now_ms):
    """Everything that an append depends on."""
    try:
        validated = validate_and_assign_offsets(
            records,
            rules,
            next_offset=7,
            leader_epoch=3,
            origin=AppendOrigin.CLIENT,
            now_ms=now_ms,
        )
    except KafkaError as error:
        return type(error), str(error), getattr(error, "record_errors", ())
    return (
        b"".join(validated.buffers),
        [str(batch) for batch in validated.batches],
        validated.size_bytes,
        (validated.first_offset, validated.last_offset),
        (validated.max_timestamp, validated.append_time_ms),
        validated.converted_count,
    )


def prevalidated(records, rules, now_ms=NOW_MS):
    """The prevalidated batch as it comes back from a worker process."""
    result = pickle.loads(pickle.dumps(prevalidate(bytes(records), rules, now_ms=now_ms)))
    return ValidatedBatch(memoryview(bytearray(records)), rules, result)


@pytest.mark.parametrize(("rules", "records", "now_ms"), SETS.values(), ids=SETS)
def test_prevalidated_set_gives_the_same_outcome(rules, records, now_ms):
    expected = outcome(memoryview(bytearray(records)), rules, now_ms)
    assert outcome(prevalidated(records, rules, now_ms), rules, now_ms) == expected


@pytest.mark.parametrize(("rules", "records", "now_ms"), SETS.values(), ids=SETS)
def test_records_are_read_only_if_validation_cost_announced_it(rules, records, now_ms, monkeypatch):
    read = []
    for kind in (RecordBatch, LegacyBatch):
        monkeypatch.setattr(kind, "records", recording_calls(kind.records, read))
    outcome(memoryview(bytearray(records)), rules, now_ms)
    assert validation_cost(records, rules) or not read


def recording_calls(records, read):
    def recorded(batch, **limits):
        read.append(batch)
        return records(batch, **limits)

    return recorded


def test_append_of_a_prevalidated_set_reads_no_record(monkeypatch):
    prevalidated_batch = prevalidated(THREE, LZ4)
    monkeypatch.delattr(RecordBatch, "records")
    stored, *_ = outcome(prevalidated_batch, LZ4, NOW_MS)
    assert RecordBatch(stored).codec is Codec.LZ4


@pytest.mark.parametrize("compression_type", ["producer", "lz4"])
def test_log_append_time_is_the_time_of_the_append(compression_type):
    rules = rules_of(message_timestamp_type="LogAppendTime", compression_type=compression_type)
    prevalidated_batch = prevalidated(THREE, rules)
    later = NOW_MS + LATER_MS
    assert outcome(prevalidated_batch, rules, later) == outcome(
        memoryview(bytearray(THREE)), rules, later
    )


@pytest.mark.parametrize(
    ("earlier_rules", "current_rules"),
    [(PLAIN, COMPACTED), (COMPACTED, PLAIN), (LZ4, PLAIN), (PLAIN, LZ4), (COMPACTED, LZ4)],
)
def test_set_is_validated_again_if_the_rules_changed(earlier_rules, current_rules):
    expected = outcome(memoryview(bytearray(THREE)), current_rules, NOW_MS)
    assert outcome(prevalidated(THREE, earlier_rules), current_rules, NOW_MS) == expected


def test_log_appends_valid_and_rejects_invalid_prevalidated_sets(tmp_path):
    log = opened(tmp_path / "events-0", cleanup_policy=("compact",))
    keyed = batch_of(Record(0, NOW_MS, b"k", b"a"), Record(1, NOW_MS, b"l", b"b"))
    append_info = log.append_as_leader(
        prevalidated(keyed, log.append_rules), leader_epoch=0, now_ms=NOW_MS
    )
    assert (append_info.first_offset, append_info.last_offset, log.log_end_offset) == (0, 1, 2)
    with pytest.raises(InvalidRecord, match="record 0"):
        log.append_as_leader(prevalidated(THREE, log.append_rules), leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == 2


OLD = message(1, b"a")
COMPRESSED = batch_of(b"a", b"b", codec=Codec.GZIP)
LARGE_MESSAGE = records_batch(bytes(100), b"b")


@pytest.mark.parametrize(
    ("rules", "records", "count"),
    [
        (PLAIN, THREE, 0),
        (COMPACTED, THREE, 3),
        (LZ4, THREE, 3 + len(THREE) // 64),
        (LZ4, batch_of(b"a", b"b", codec=Codec.LZ4), 0),
        (COMPACTED, COMPRESSED, 2 + len(COMPRESSED) // 16),
        (rules_of(message_timestamp_before_max_ms=1000), THREE, 3),
        (rules_of(cleanup_policy=("compact",), max_message_bytes=99), LARGE_MESSAGE, 0),
        (PLAIN, OLD * 2, 2 + len(OLD * 2) // 64),
        (PLAIN, OLD * 3000, len(OLD * 3000) // 26 + len(OLD * 3000) // 64),
        (PLAIN, OLD + b"?" * 40, 1 + (len(OLD) + 40) // 64),
        (PLAIN, batch_around(b"", count=0, last_delta=0)[:50], 0),
        (PLAIN, b"", 0),
    ],
)
def test_validation_cost_is_computed_from_headers(rules, records, count):
    assert validation_cost(records, rules) == count


@pytest.mark.parametrize("records", [wrapper(1, OLD), OLD + wrapper(1, OLD), OLD + THREE])
def test_validation_cost_of_a_legacy_wrapper_is_unknown(records):
    assert validation_cost(records, PLAIN) >= UNKNOWN_RECORD_COUNT
