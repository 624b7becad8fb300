"""The process that reads records for the broker."""

import os
import signal
from pathlib import Path

import pytest

from odradek.broker import record_inspector
from odradek.broker.record_inspector import RecordInspector
from odradek.protocol.errors import CorruptMessage, InvalidRecord, RequestTimedOut
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.storage.settings import TopicSettings
from odradek.storage.timestamp_lookup import TimestampAndOffset, TimestampQuery
from odradek.storage.validation.append_rules import append_rules_for
from odradek.storage.validation.validated_batch import ValidationResult
from tests.support.batches import batch_around
from tests.support.logs import NOW_MS, records_batch

PLAIN = append_rules_for(TopicSettings())
COMPACTED = append_rules_for(TopicSettings(cleanup_policy=("compact",)))


@pytest.fixture
def reader():
    reader = RecordInspector()
    yield reader
    reader.close()


def die_once(records, rules, now_ms):
    """Runs in the worker process; the records are a path."""
    marker = Path(records.decode())
    if marker.exists():
        return ValidationResult(None)
    marker.touch()
    return die(records, rules, now_ms)


def die(_records, _rules, _now_ms):
    os.kill(os.getpid(), signal.SIGKILL)


async def test_records_are_returned_validated_or_rejected(reader):
    records = memoryview(records_batch(b"a", b"b"))
    accepted = await reader.validate(records, PLAIN, now_ms=NOW_MS)
    assert (accepted.outcome.batch, accepted.records, accepted.rules) == (records, records, PLAIN)
    rejected = await reader.validate(records, COMPACTED, now_ms=NOW_MS)
    assert isinstance(rejected.outcome, InvalidRecord)
    assert [error.batch_index for error in rejected.outcome.record_errors] == [0, 1]


async def test_offset_is_found_by_timestamp_in_a_batch(reader):
    batch = RecordBatch(records_batch(b"a", b"b", timestamp=1000, base_offset=5))
    assert await reader.find_offset(
        batch, TimestampQuery(1000, start_offset=6)
    ) == TimestampAndOffset(6, 1000, -1)
    assert await reader.find_offset(
        batch, TimestampQuery(None, start_offset=0)
    ) == TimestampAndOffset(5, 1000, -1)
    assert await reader.find_offset(batch, TimestampQuery(1001, start_offset=0)) is None


async def test_corrupt_batch_is_an_error(reader):
    batch = RecordBatch(batch_around(b"no gzip", count=1, last_delta=0, codec=Codec.GZIP))
    with pytest.raises(CorruptMessage):
        await reader.find_offset(batch, TimestampQuery(0, start_offset=0))


async def test_batch_is_read_again_if_the_process_dies_once(reader, tmp_path, monkeypatch):
    monkeypatch.setattr(record_inspector, "validate_in_worker", die_once)
    path = memoryview(bytes(tmp_path / "begun"))
    result = await reader.validate(path, PLAIN, now_ms=NOW_MS)
    assert result.outcome == ValidationResult(None)


async def test_batch_that_kills_the_process_fails_and_the_next_is_read(reader, monkeypatch):
    monkeypatch.setattr(record_inspector, "validate_in_worker", die)
    with pytest.raises(RequestTimedOut):
        await reader.validate(memoryview(b""), PLAIN, now_ms=NOW_MS)
    monkeypatch.undo()
    result = await reader.validate(memoryview(b""), PLAIN, now_ms=NOW_MS)
    assert result.outcome == ValidationResult(None)
