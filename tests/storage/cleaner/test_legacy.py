"""Compaction of messages of magic 0 and 1, which have no delete horizon."""

import pytest

from odradek.protocol.records.batch import MAGIC
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import batches_of_any_magic, magic_of
from odradek.storage import files
from odradek.storage.paths import LogFileType
from tests.support.compaction import (
    append_pairs,
    compact,
    sealed,
    stored_batches,
    stored_pairs,
)
from tests.support.logs import NOW_MS, opened

SECOND_NS = 10**9
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


@pytest.fixture
def log(tmp_path):
    return opened(tmp_path / "events-0", cleanup_policy=("compact",))


def append_legacy(log, *pairs, timestamp=NOW_MS, **legacy_format):
    """Append messages as written before the message format of the log was raised."""
    legacy_format = LegacyFormat(**legacy_format)
    timestamp = timestamp if legacy_format.magic else -1
    records = [
        Record(log.log_end_offset + index, timestamp + index * legacy_format.magic, key, value)
        for index, (key, value) in enumerate(pairs)
    ]
    for batch in batches_of_any_magic(bytes(build_legacy_set(records, legacy_format))):
        log.segments.active.append([batch.view], [batch])
    log.log_end_offset += len(pairs)
    log.update_high_watermark(log.log_end_offset)


def set_modified(log, *seconds):
    for segment, second in zip(log.segments, seconds, strict=False):
        files.set_modified_ns(segment.path(LogFileType.LOG), second * SECOND_NS)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_last_record_of_every_key_keeps_its_offset(log, magic, codec):
    pairs = [(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (None, b"1")]
    append_legacy(log, *pairs, magic=magic, codec=codec)
    append_legacy(log, (b"b", b"2"), magic=magic, codec=codec)
    compact(sealed(log))
    assert stored_pairs(log) == {0: (b"a", b"1"), 2: (b"c", b"1"), 4: (b"b", b"2")}
    assert {(magic_of(batch), batch.codec) for batch in stored_batches(log)} == {(magic, codec)}
    assert all(batch.is_valid() for batch in stored_batches(log))


def test_wrapper_ends_with_its_last_retained_record(log):
    append_legacy(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), magic=1, codec=Codec.GZIP)
    append_legacy(log, (b"c", b"2"), magic=1)
    compact(sealed(log))
    wrapper = stored_batches(log)[0]
    assert (wrapper.base_offset, wrapper.last_offset) == (0, 1)
    assert wrapper.max_timestamp == NOW_MS + 1


def test_wrapper_that_loses_no_record_is_copied_byte_for_byte(log):
    append_legacy(log, (b"a", b"1"), (b"b", b"1"), magic=0, codec=Codec.LZ4)
    before = bytes(stored_batches(log)[0].view)
    append_legacy(log, (b"c", b"1"), (b"c", b"2"), magic=0)
    compact(sealed(log))
    assert bytes(stored_batches(log)[0].view) == before


def test_append_time_of_a_wrapper_is_kept(log):
    legacy_format = {"magic": 1, "codec": Codec.GZIP, "append_time_ms": NOW_MS - 9}
    append_legacy(log, (b"a", b"1"), (b"b", b"1"), **legacy_format)
    append_legacy(log, (b"b", b"2"), magic=1)
    compact(sealed(log))
    wrapper = stored_batches(log)[0]
    assert [record.timestamp for record in wrapper] == [NOW_MS - 9]


def test_tombstone_is_kept_until_its_segment_reaches_the_retention_age(log):
    append_legacy(log, (b"a", None), (b"b", b"1"), magic=1)
    append_pairs(sealed(log), (b"c", b"1"))
    sealed(log)
    set_modified(log, 1000, 1060)
    compact(log, checkpoint=0, segment_bytes_max=1, delete_retention_ms=59_000)
    assert list(stored_pairs(log)) == [0, 1, 2]
    compact(log, checkpoint=3, segment_bytes_max=1, delete_retention_ms=61_000)
    assert list(stored_pairs(log)) == [0, 1, 2]
    compact(log, checkpoint=3, segment_bytes_max=1, delete_retention_ms=60_000)
    assert list(stored_pairs(log)) == [1, 2]


def test_records_beyond_the_offset_map_are_kept(log):
    for value in (b"1", b"2", b"3"):
        append_legacy(log, (b"a", value), (b"b", value), magic=1, codec=Codec.GZIP)
    plan = compact(sealed(log), dedupe_buffer_bytes=1)
    assert plan.end_offset == 2
    assert list(stored_pairs(log)) == [0, 1, 2, 3, 4, 5]


def test_legacy_and_current_formats_are_compacted_together(log):
    append_legacy(log, (b"a", b"1"), (b"b", b"1"), magic=0)
    append_legacy(log, (b"b", b"2"), (b"c", b"2"), magic=1, codec=Codec.GZIP)
    append_pairs(log, (b"c", b"3"), (b"a", b"3"))
    compact(sealed(log))
    assert stored_pairs(log) == {2: (b"b", b"2"), 4: (b"c", b"3"), 5: (b"a", b"3")}
    assert [magic_of(batch) for batch in stored_batches(log)] == [1, MAGIC]
