"""The dump of .log files: batches and records as Kafka reads them, and their damage."""

from base64 import b64decode
from struct import pack, pack_into

import pytest

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.record import Header, Record
from odradek.storage.dump import segments
from odradek.storage.offset_index import ENTRY as INDEX_ENTRY
from tests.support.batches import batch_around, batch_of, with_checksum
from tests.support.dumps import dumped, dumped_batches, segment
from tests.support.memory import peak_bytes
from tests.support.recorded_segments import (
    SEGMENTS,
    RecordedSegment,
    names_of_recorded_segments,
)

FIRST, SECOND, THIRD = (
    bytes(batch_of(b"a", b"b", base_offset=0)),
    bytes(batch_of(b"c", base_offset=2, partition_leader_epoch=4)),
    bytes(batch_of(b"d", b"e", b"f", base_offset=3, codec=Codec.GZIP)),
)
SECOND_AT, THIRD_AT = len(FIRST), len(FIRST) + len(SECOND)
END = THIRD_AT + len(THIRD)


@pytest.fixture
def log(tmp_path):
    return segment(tmp_path / "events-0", 0, FIRST, SECOND, THIRD)


@pytest.fixture(params=names_of_recorded_segments())
def recorded(request):
    return RecordedSegment.load(SEGMENTS, request.param)


def test_batches_are_those_that_the_kafka_tool_printed(recorded):
    assert dumped_batches(SEGMENTS / f"{recorded.name}.log") == recorded.batches


def test_records_are_those_that_the_java_consumer_returned(recorded):
    dump = dumped(SEGMENTS / f"{recorded.name}.log", "--records", "--verify")
    records = [record for record in dump.of_kind("record") if "control" not in record]
    assert [
        (
            record["offset"],
            record["timestamp"],
            as_bytes(record["key"]),
            as_bytes(record["value"]),
            tuple((header["key"], as_bytes(header["value"])) for header in record["headers"]),
        )
        for record in records
    ] == [
        (expected.offset, expected.timestamp, expected.key, expected.value, expected.headers)
        for expected in recorded.records
    ]


def test_records_are_printed_only_with_the_records_option(log):
    assert dumped(log).of_kind("record") == []
    assert dumped(log, "--verify").of_kind("record") == []
    assert len(dumped(log, "--records").of_kind("record")) == 6


def test_bytes_that_are_not_text_are_printed_in_base64(tmp_path):
    record = Record(0, 5, b"\x00", b"line\n", (Header("\udcff", b"\x1b[31m"),))
    log = segment(tmp_path, 0, batch_of(record))
    (printed_record,) = dumped(log, "--records").of_kind("record")
    assert printed_record == {
        "position": 0,
        "offset": 0,
        "timestamp": 5,
        "key": {"base64": "AA=="},
        "value": "line\n",
        "headers": [{"key": {"base64": "/w=="}, "value": {"base64": "G1szMW0="}}],
    }


@pytest.mark.parametrize(
    ("first", "last", "batches", "records"),
    [
        (0, 0, [0], [0]),
        (1, 2, [0, 2], [1, 2]),
        (2, 2, [2], [2]),
        (4, 99, [3], [4, 5]),
        (6, 99, [], []),
    ],
)
def test_only_the_requested_offsets_are_printed(log, first, last, batches, records):
    dump = dumped(log, "--records", "--from-offset", str(first), "--to-offset", str(last))
    assert [batch["base_offset"] for batch in dump.of_kind("batch")] == batches
    assert [record["offset"] for record in dump.of_kind("record")] == records


def test_offsets_inside_legacy_wrappers_are_found():
    log = SEGMENTS / "java-magic-1-gzip.log"
    dump = dumped(log, "--records", "--from-offset", "7", "--to-offset", "7")
    assert [batch["last_offset"] for batch in dump.of_kind("batch")] == [9]
    assert [record["offset"] for record in dump.of_kind("record")] == [7]


def test_only_verify_finds_damage_outside_the_requested_offsets(log):
    flip(log, SECOND_AT + 30)
    assert dumped(log, "--to-offset", "1").exit_code == 0
    assert dumped(log, "--to-offset", "1", "--verify").damages[0][1] == SECOND_AT


@pytest.mark.parametrize(
    ("bytes_max", "batch_count"), [(0, 0), (SECOND_AT - 1, 0), (SECOND_AT, 1), (END, 3)]
)
def test_max_bytes_limits_the_bytes_that_are_read(log, bytes_max, batch_count):
    dump = dumped(log, "--max-bytes", str(bytes_max))
    assert len(dump.of_kind("batch")) == batch_count
    assert dump.exit_code == 0


@pytest.mark.parametrize("position", [*range(8, 12), *range(16, len(SECOND))])
def test_flipped_bit_covered_by_a_checksum_or_a_size_is_damage(log, position):
    flip(log, SECOND_AT + position)
    dump = dumped(log)
    assert {position for _, position, _ in dump.damages} & {SECOND_AT, THIRD_AT}
    assert dump.of_kind("batch")[0]["base_offset"] == 0


@pytest.mark.parametrize("position", [*range(21, len(SECOND))])
def test_batch_with_a_wrong_checksum_is_printed_and_the_dump_continues(log, position):
    flip(log, SECOND_AT + position, 0x01)
    dump = dumped(log)
    assert [(name, position) for name, position, _ in dump.damages] == [(log.name, SECOND_AT)]
    assert dump.of_kind("batch")[-1]["base_offset"] == 3


def test_computed_checksum_is_printed(log):
    flip(log, SECOND_AT + 40)
    (batch,) = [batch for batch in dumped(log).of_kind("batch") if not batch["is_valid"]]
    assert batch["position"] == SECOND_AT
    ((_, _, reason),) = dumped(log).damages
    assert reason.startswith(f"checksum {batch['checksum']:08x}, but the bytes have ")


@pytest.mark.parametrize("size", [*range(THIRD_AT + 1, END)])
def test_torn_batch_at_the_end_is_damage(log, size):
    log.write_bytes(log.read_bytes()[:size])
    dump = dumped(log)
    ((_, position, reason),) = dump.damages
    remaining = size - THIRD_AT
    assert position == THIRD_AT
    expected = f"a batch of {len(THIRD)} bytes is truncated after {remaining} bytes"
    assert reason == (
        f"{remaining} bytes at the end, too few for a batch" if remaining < 26 else expected
    )
    assert [batch["base_offset"] for batch in dump.of_kind("batch")] == [0, 2]


def test_invalid_batch_ends_the_dump_without_an_index(log):
    flip(log, SECOND_AT + 16, 0x10)
    dump = dumped(log)
    assert dump.damages == [
        (log.name, SECOND_AT, f"invalid batch header: magic 18, {len(SECOND)} bytes")
    ]
    assert [batch["base_offset"] for batch in dump.of_kind("batch")] == [0]


@pytest.mark.parametrize("byte", [8, 9, 10, 11, 16], ids=lambda byte: f"byte {byte}")
def test_dump_continues_after_an_invalid_batch_with_the_index(log, byte):
    log.with_suffix(".index").write_bytes(INDEX_ENTRY.pack(5, THIRD_AT))
    flip(log, SECOND_AT + byte, 0x40)
    dump = dumped(log)
    assert dump.of_kind("batch")[-1]["base_offset"] == 3
    assert dump.of_kind("note")[0]["position"] == THIRD_AT
    assert dump.exit_code == 1


def test_index_without_usable_entries_does_not_continue_the_dump(log):
    entries = [(1, 7), (2, SECOND_AT), (3, THIRD_AT + 1), (4, END), (5, 2**31)]
    log.with_suffix(".index").write_bytes(b"".join(INDEX_ENTRY.pack(*entry) for entry in entries))
    flip(log, SECOND_AT + 16, 0x10)
    assert len(dumped(log).of_kind("batch")) == 1


def test_zeros_at_the_end_of_the_active_segment_are_preallocated_space(log):
    log.write_bytes(log.read_bytes() + bytes(1_000_000))
    dump = dumped(log, "--verify")
    assert dump.of_kind("room") == [{"position": END, "size_bytes": 1_000_000}]
    assert dump.exit_code == 0


def test_verify_finds_zeros_at_the_end_of_a_sealed_segment(log):
    log.write_bytes(log.read_bytes() + bytes(100))
    segment(log.parent, 6, batch_of(b"g", base_offset=6))
    assert dumped(log).exit_code == 0
    assert dumped(log, "--verify").damages == [
        (log.name, END, "zeros at the end of a sealed segment")
    ]


def test_zeros_before_other_bytes_are_damage(log):
    log.write_bytes(log.read_bytes() + bytes(100) + b"x")
    assert dumped(log).damages == [(log.name, END, "invalid batch header: magic 0, 12 bytes")]


def test_offsets_that_go_back_are_damage(tmp_path):
    log = segment(tmp_path, 0, FIRST, SECOND, SECOND)
    assert dumped(log).damages == [
        (log.name, SECOND_AT + len(SECOND), "base offset 2 is below the next offset 3")
    ]


def test_offsets_below_the_base_offset_of_the_segment_are_damage(tmp_path):
    log = segment(tmp_path, 3, SECOND)
    assert dumped(log).damages == [(log.name, 0, "base offset 2 is below the next offset 3")]


def test_offsets_of_the_next_segment_are_damage(tmp_path):
    log = segment(tmp_path, 0, FIRST, SECOND)
    segment(tmp_path, 2, SECOND)
    assert dumped(log).damages == [
        (log.name, SECOND_AT, "offset 2 belongs to the next segment, base offset 2")
    ]


def test_offsets_too_far_from_the_base_offset_are_damage(tmp_path):
    log = segment(tmp_path, 7, batch_of(b"a", base_offset=7 + 2**31))
    assert dumped(log).damages == [
        (log.name, 0, f"offset {7 + 2**31} is too far from the segment's base offset 7")
    ]


def test_offset_gaps_are_not_damage(tmp_path):
    log = segment(tmp_path, 0, FIRST, batch_of(b"z", base_offset=50, last_offset=70))
    assert dumped(log, "--verify").exit_code == 0


def test_verify_finds_records_that_contradict_their_header(tmp_path):
    log = segment(tmp_path, 0, batch_around(b"\x01\x02", count=5, last_delta=1), SECOND)
    assert dumped(log).exit_code == 0
    for option in ("--verify", "--records"):
        ((_, position, reason),) = dumped(log, option).damages
        assert (position, reason) == (0, "invalid records: 5 records in 2 bytes")


def test_unknown_codec_is_printed_as_null(tmp_path):
    log = segment(tmp_path, 0, batch_around(b"", count=0, last_delta=0, codec=7))
    dump = dumped(log, "--verify")
    assert dump.of_kind("batch")[0]["codec"] is None
    assert dump.damages == [(log.name, 0, "invalid records: unknown codec 7")]


def test_invalid_header_is_damage_and_the_dump_continues(tmp_path):
    invalid = bytearray(FIRST)
    pack_into(">i", invalid, 57, -1)
    log = segment(tmp_path, 0, with_checksum(invalid), SECOND)
    dump = dumped(log)
    assert [position for _, position, _ in dump.damages] == [0]
    assert [batch["base_offset"] for batch in dump.of_kind("batch")] == [2]


def test_markers_are_decoded(tmp_path):
    markers = [
        build_marker_batch(
            EndTransactionMarker(is_commit, 7),
            timestamp=1,
            producer_id=9,
            producer_epoch=0,
            base_offset=offset,
        )
        for offset, is_commit in enumerate((True, False))
    ]
    records = dumped(segment(tmp_path, 0, *markers), "--records").of_kind("record")
    assert [record["control"] for record in records] == [
        {"type": "commit", "coordinator_epoch": 7},
        {"type": "abort", "coordinator_epoch": 7},
    ]


@pytest.mark.parametrize("key", [b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_control_records_without_a_type_are_damage(tmp_path, key):
    log = segment(tmp_path, 0, batch_of(Record(0, 0, key, b""), is_control=True))
    ((_, position, reason),) = dumped(log, "--verify").damages
    assert position == 0
    assert reason.startswith("record 0: a control record with a key of ")


@pytest.mark.parametrize("magic", [1, 2])
def test_damaged_batch_length_does_not_read_the_whole_file(tmp_path, magic):
    size = 4 * segments.LARGE_BATCH_BYTES
    log = segment(tmp_path, 0, FIRST)
    with log.open("r+b") as file:
        file.truncate(len(FIRST) + size)
        file.seek(len(FIRST))
        file.write(pack(">qiIb", 2, size - 12, 0, magic))

    def verify_log():
        dump = dumped(log, "--verify")
        assert [position for _, position, _ in dump.damages] == [len(FIRST)]

    assert peak_bytes(verify_log) < 8 * 1024 * 1024


def test_large_batch_with_a_valid_checksum_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "LARGE_BATCH_BYTES", 100)
    log = segment(tmp_path, 0, batch_of(b"x" * 1000), batch_of(b"y" * 1000, base_offset=1))
    assert [record["offset"] for record in dumped(log, "--records").of_kind("record")] == [0, 1]
    old = SEGMENTS / "java-magic-1-none.log"
    assert len(dumped(old, "--records").of_kind("record")) == 10


def test_memory_does_not_grow_with_the_number_of_batches(tmp_path):
    content = bytes(batch_of(b"x" * 10_000))
    log = segment(tmp_path, 0)
    with log.open("ab") as file:
        for offset in range(2_000):
            file.write(pack(">q", offset) + content[8:])
    assert log.stat().st_size > 20_000_000
    assert peak_bytes(lambda: dumped(log, "--verify", "--quiet")) < 2 * 1024 * 1024


def as_bytes(value):
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else b64decode(value["base64"])


def flip(path, position, mask=0x80):
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    path.write_bytes(content)
