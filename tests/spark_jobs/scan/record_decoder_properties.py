"""For any batches, the scanner decodes and rejects the same records as plain Python code."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import NO_TIMESTAMP, Header, Record
from odradek.spark_jobs.scan import file_access, record_boundaries, record_headers, segment_reader
from tests.support.batches import batch_around, batch_of
from tests.support.scans import ALL_COLUMNS, LogDirectory, plain_rows

CONTENTS = st.none() | st.binary(max_size=200)
TIMESTAMPS = st.integers(-1, 2**53) | st.integers(1_700_000_000_000, 1_700_000_100_000)
HEADERS = st.lists(st.builds(Header, st.text(max_size=5), CONTENTS), max_size=3)
RECORDS = st.lists(
    st.tuples(st.integers(1, 300), TIMESTAMPS, CONTENTS, CONTENTS, HEADERS), min_size=1, max_size=9
)
BATCHES = st.lists(
    st.tuples(
        RECORDS,
        st.sampled_from(Codec),
        st.sampled_from([0, 1, 2, 2, 2]),
        st.none() | st.integers(0, 2**40),
        st.integers(-1, 2**31 - 1),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(params=[1, 1000], ids=["in step", "one by one"])
def lanes(request, monkeypatch):
    """Both algorithms that find the start of records and headers."""
    monkeypatch.setattr(record_boundaries, "LANES_MIN", request.param)
    monkeypatch.setattr(record_headers, "LANES_MIN", request.param)


def encode_log(drawn):
    """Return the bytes of a log with ascending offsets and gaps."""
    offset, log = 0, b""
    for records, codec, magic, append_time, sequence in drawn:
        encoded = []
        for gap, timestamp, key, value, headers in records:
            offset += gap
            # Magic 0 and 1 have no headers, and magic 0 has no timestamps.
            encoded.append(
                Record(offset, timestamp, key, value, tuple(headers))
                if magic == 2
                else Record(offset, max(timestamp, 0) if magic else NO_TIMESTAMP, key, value)
            )
        if magic == 2:
            has_producer = sequence >= 0
            log += batch_of(
                *encoded,
                base_offset=encoded[0].offset,
                codec=codec,
                append_time_ms=append_time,
                producer_id=7 if has_producer else -1,
                producer_epoch=1 if has_producer else -1,
                base_sequence=sequence,
                partition_leader_epoch=sequence % 5 - 1,
            )
        else:
            codec = Codec.NONE if codec is Codec.ZSTD else codec
            append_time = append_time if magic == 1 else None
            log += build_legacy_set(
                encoded, LegacyFormat(magic=magic, codec=codec, append_time_ms=append_time)
            )
    return log


@pytest.mark.usefixtures("lanes")
class TestDecoding:
    @given(BATCHES)
    def test_every_column_equals_the_plain_python_decoding(self, drawn):
        log = encode_log(drawn)
        with tempfile.TemporaryDirectory() as folder:
            directory = LogDirectory(Path(folder))
            path = directory.write(0, [log])
            scanned = directory.scan(columns=ALL_COLUMNS)
            assert scanned.rows == list(plain_rows(log, segment=str(path)))
            assert scanned.damages == []

    @given(BATCHES, st.integers(0, 3000), st.integers(0, 3000))
    def test_offset_range_is_exact_inside_batches(self, drawn, start, end):
        log = encode_log(drawn)
        with tempfile.TemporaryDirectory() as folder:
            directory = LogDirectory(Path(folder))
            directory.write(0, [log], indexed=True)
            offsets = [row["offset"] for row in plain_rows(log, segment="")]
            for columns in ("offset", "offset,topic,value"):
                scanned = directory.scan(
                    columns=columns,
                    startingOffsets=f'{{"orders": {{"0": {start}}}}}',
                    endingOffsets=f'{{"orders": {{"0": {end}}}}}',
                )
                assert scanned.offsets == [offset for offset in offsets if start <= offset < end]

    @given(BATCHES, st.integers(30, 300), st.integers(1, 100))
    def test_small_groups_splits_and_chunks_give_the_same_rows(
        self, drawn, size_bytes, chunk_bytes
    ):
        log = encode_log(drawn)
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                segment_reader.SegmentReader.__init__, "__kwdefaults__", {"group_bytes": size_bytes}
            )
            patch.setattr(file_access, "LOCAL_CHUNK_BYTES", chunk_bytes)
            directory = LogDirectory(Path(folder))
            path = directory.write(0, [log], indexed=size_bytes % 2 == 0)
            scanned = directory.scan(columns=ALL_COLUMNS, maxSplitBytes=str(size_bytes))
            assert scanned.rows == list(plain_rows(log, segment=str(path)))

    @example(records=b"\x80\x03\0\0\0\x80\x02", count=1, last_delta=0)
    @given(st.binary(max_size=60), st.integers(0, 5), st.integers(0, 5))
    def test_arbitrary_record_bytes_are_rejected_as_in_plain_python(
        self, records, count, last_delta
    ):
        damaged = batch_around(records, count=count, last_delta=last_delta)
        valid = batch_of(b"before", base_offset=0), batch_of(b"after", base_offset=20)
        moved = bytearray(damaged)
        moved[7] = 10  # its base offset
        try:
            values = [record.value for record in RecordBatch(moved)]
        except CorruptMessage:
            values = None
        with tempfile.TemporaryDirectory() as folder:
            directory = LogDirectory(Path(folder))
            directory.write(0, [valid[0], moved, valid[1]])
            scanned = directory.scan(columns="value,headers")
        assert [row["value"] for row in scanned.rows] == [b"before", *(values or []), b"after"]
        assert len(scanned.damages) == (values is None)
