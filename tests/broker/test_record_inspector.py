"""Records that another process reads."""

import os
import signal
from pathlib import Path

import pytest

from odradek.broker import record_reader
from odradek.broker.record_reader import RecordReader
from odradek.protocol.errors import CorruptMessage, InvalidRecord, RequestTimedOut
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.storage.admission.checked_batch import Accepted
from odradek.storage.admission.rules import append_rules
from odradek.storage.log_lookup import FoundOffset, Sought
from odradek.storage.settings import TopicSettings
from tests.support.batches import batch_around
from tests.support.logs import NOW_MS, records_batch

PLAIN = append_rules(TopicSettings())
COMPACTED = append_rules(TopicSettings(cleanup_policy=("compact",)))


@pytest.fixture
def reader():
    reader = RecordReader()
    yield reader
    reader.close()


def die_once(records, rules, now_ms):
    """In the worker process; the records are a path."""
    begun = Path(records.decode())
    if begun.exists():
        return Accepted(None)
    begun.touch()
    return die(records, rules, now_ms)


def die(_records, _rules, _now_ms):
    os.kill(os.getpid(), signal.SIGKILL)


async def test_a_set_comes_back_as_it_is_to_be_written_or_with_the_refusal(reader):
    records = memoryview(records_batch(b"a", b"b"))
    taken = await reader.checked(records, PLAIN, now_ms=NOW_MS)
    assert (taken.verdict.batch, taken.received, taken.rules) == (records, records, PLAIN)
    refused = await reader.checked(records, COMPACTED, now_ms=NOW_MS)
    assert isinstance(refused.verdict, InvalidRecord)
    assert [error.batch_index for error in refused.verdict.record_errors] == [0, 1]


async def test_a_record_is_found_in_a_batch(reader):
    batch = RecordBatch(records_batch(b"a", b"b", timestamp=1000, base_offset=5))
    assert await reader.found(batch, Sought(1000, start=6)) == FoundOffset(6, 1000, -1)
    assert await reader.found(batch, Sought(None, start=0)) == FoundOffset(5, 1000, -1)
    assert await reader.found(batch, Sought(1001, start=0)) is None


async def test_that_a_batch_cannot_be_read_is_told(reader):
    batch = RecordBatch(batch_around(b"no gzip", count=1, last_delta=0, codec=Codec.GZIP))
    with pytest.raises(CorruptMessage):
        await reader.found(batch, Sought(0, start=0))


async def test_what_a_process_was_reading_when_it_died_another_reads(reader, tmp_path, monkeypatch):
    monkeypatch.setattr(record_reader, "check_in_worker", die_once)
    path = memoryview(bytes(tmp_path / "begun"))
    checked = await reader.checked(path, PLAIN, now_ms=NOW_MS)
    assert checked.verdict == Accepted(None)


async def test_a_batch_that_kills_whoever_reads_it_fails_and_the_next_is_read(reader, monkeypatch):
    monkeypatch.setattr(record_reader, "check_in_worker", die)
    with pytest.raises(RequestTimedOut):
        await reader.checked(memoryview(b""), PLAIN, now_ms=NOW_MS)
    monkeypatch.undo()
    checked = await reader.checked(memoryview(b""), PLAIN, now_ms=NOW_MS)
    assert checked.verdict == Accepted(None)
