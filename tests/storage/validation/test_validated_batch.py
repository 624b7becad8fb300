"""Record sets that are checked before they are appended: nothing differs but when it is done."""

import pickle

import pytest

from odradek.config.definition import Layer
from odradek.protocol.errors import InvalidRecord, KafkaError
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy import LegacyBatch
from odradek.protocol.records.record import Record
from odradek.storage.admission.batch_validation import UNTOLD_COUNT, reading_cost
from odradek.storage.admission.checked_batch import CheckedBatch, verdict_on
from odradek.storage.admission.offset_assignment import admit
from odradek.storage.admission.rules import append_rules
from odradek.storage.producers.append import AppendOrigin
from odradek.storage.settings import TopicSettings
from tests.support.batches import batch_around, batch_of
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import NOW_MS, opened, records_batch
from tests.support.produce_answers import saved_answers

SETS = {
    answer.name: (
        append_rules(TopicSettings.read({Layer.TOPIC: dict(answer.topic)})),
        answer.sent,
        answer.now_ms,
    )
    for answer in saved_answers()
}
LATER_MS = 5000


def rules_of(**settings):
    return append_rules(TopicSettings(**settings))


PLAIN = rules_of()
COMPACTED = rules_of(cleanup_policy=("compact",))
LZ4 = rules_of(compression_type="lz4")
THREE = records_batch(b"a", b"b", b"c")


def outcome(records, rules, now_ms):
    """All that an append would go by."""
    try:
        admitted = admit(
            records,
            rules,
            next_offset=7,
            leader_epoch=3,
            origin=AppendOrigin.CLIENT,
            now_ms=now_ms,
        )
    except KafkaError as refusal:
        return type(refusal), str(refusal), getattr(refusal, "record_errors", ())
    return (
        b"".join(admitted.buffers),
        [str(batch) for batch in admitted.batches],
        admitted.size_bytes,
        (admitted.first_offset, admitted.last_offset),
        (admitted.max_timestamp, admitted.append_time_ms),
        admitted.converted_count,
    )


def checked(records, rules, now_ms=NOW_MS):
    """As it comes back from another process."""
    verdict = pickle.loads(pickle.dumps(verdict_on(bytes(records), rules, now_ms=now_ms)))
    return CheckedBatch(memoryview(bytearray(records)), rules, verdict)


@pytest.mark.parametrize(("rules", "records", "now_ms"), SETS.values(), ids=SETS)
def test_a_set_that_was_checked_before_ends_as_one_that_was_not(rules, records, now_ms):
    directly = outcome(memoryview(bytearray(records)), rules, now_ms)
    assert outcome(checked(records, rules, now_ms), rules, now_ms) == directly


@pytest.mark.parametrize(("rules", "records", "now_ms"), SETS.values(), ids=SETS)
def test_no_records_are_read_unless_that_was_told_before(rules, records, now_ms, monkeypatch):
    read = []
    for kind in (RecordBatch, LegacyBatch):
        monkeypatch.setattr(kind, "records", noting(kind.records, read))
    outcome(memoryview(bytearray(records)), rules, now_ms)
    assert reading_cost(records, rules) or not read


def noting(records, read):
    def noted(batch, **limits):
        read.append(batch)
        return records(batch, **limits)

    return noted


def test_no_record_is_read_to_append_what_was_checked(monkeypatch):
    ready = checked(THREE, LZ4)
    monkeypatch.delattr(RecordBatch, "records")
    written, *_ = outcome(ready, LZ4, NOW_MS)
    assert RecordBatch(written).codec is Codec.LZ4


@pytest.mark.parametrize("compression_type", ["producer", "lz4"])
def test_the_time_of_append_is_that_of_the_append(compression_type):
    rules = rules_of(message_timestamp_type="LogAppendTime", compression_type=compression_type)
    ready = checked(THREE, rules)
    later = NOW_MS + LATER_MS
    assert outcome(ready, rules, later) == outcome(memoryview(bytearray(THREE)), rules, later)


@pytest.mark.parametrize(
    ("then", "now"),
    [(PLAIN, COMPACTED), (COMPACTED, PLAIN), (LZ4, PLAIN), (PLAIN, LZ4), (COMPACTED, LZ4)],
)
def test_other_rules_than_those_of_the_check_are_the_ones_that_count(then, now):
    directly = outcome(memoryview(bytearray(THREE)), now, NOW_MS)
    assert outcome(checked(THREE, then), now, NOW_MS) == directly


def test_a_log_appends_what_was_checked_and_refuses_what_was_refused(tmp_path):
    log = opened(tmp_path / "events-0", cleanup_policy=("compact",))
    keyed = batch_of(Record(0, NOW_MS, b"k", b"a"), Record(1, NOW_MS, b"l", b"b"))
    written = log.append_as_leader(checked(keyed, log.rules), leader_epoch=0, now_ms=NOW_MS)
    assert (written.first_offset, written.last_offset, log.end_offset) == (0, 1, 2)
    with pytest.raises(InvalidRecord, match="record 0"):
        log.append_as_leader(checked(THREE, log.rules), leader_epoch=0, now_ms=NOW_MS)
    assert log.end_offset == 2


OLD = message(1, b"a")
PACKED = batch_of(b"a", b"b", codec=Codec.GZIP)
LARGE_MESSAGE = records_batch(bytes(100), b"b")


@pytest.mark.parametrize(
    ("rules", "records", "count"),
    [
        (PLAIN, THREE, 0),
        (COMPACTED, THREE, 3),
        (LZ4, THREE, 3 + len(THREE) // 64),
        (LZ4, batch_of(b"a", b"b", codec=Codec.LZ4), 0),
        (COMPACTED, PACKED, 2 + len(PACKED) // 16),
        (rules_of(message_timestamp_before_max_ms=1000), THREE, 3),
        (rules_of(cleanup_policy=("compact",), max_message_bytes=99), LARGE_MESSAGE, 0),
        (PLAIN, OLD * 2, 2 + len(OLD * 2) // 64),
        (PLAIN, OLD * 3000, len(OLD * 3000) // 26 + len(OLD * 3000) // 64),
        (PLAIN, OLD + b"?" * 40, 1 + (len(OLD) + 40) // 64),
        (PLAIN, batch_around(b"", count=0, last_delta=0)[:50], 0),
        (PLAIN, b"", 0),
    ],
)
def test_headers_tell_how_many_records_will_be_read(rules, records, count):
    assert reading_cost(records, rules) == count


@pytest.mark.parametrize("records", [wrapper(1, OLD), OLD + wrapper(1, OLD), OLD + THREE])
def test_a_wrapper_does_not_tell_how_many_messages_it_holds(records):
    assert reading_cost(records, PLAIN) >= UNTOLD_COUNT
