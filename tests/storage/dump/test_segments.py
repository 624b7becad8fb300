"""The dump of .log files: batches and records as Kafka reads them, and what is damaged in them."""

from base64 import b64decode
from struct import pack, pack_into

import pytest

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
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


def test_batches_are_those_that_kafkas_own_tool_printed(recorded):
    assert dumped_batches(SEGMENTS / f"{recorded.name}.log") == recorded.batches


def test_records_are_those_that_the_java_consumer_returned(recorded):
    facts = dumped(SEGMENTS / f"{recorded.name}.log", "--records", "--verify")
    records = [record for record in facts.of_kind("record") if "control" not in record]
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
        (each.offset, each.timestamp, each.key, each.value, each.headers)
        for each in recorded.records
    ]


def test_records_are_told_only_when_asked_for(log):
    assert dumped(log).of_kind("record") == []
    assert dumped(log, "--verify").of_kind("record") == []
    assert len(dumped(log, "--records").of_kind("record")) == 6


def test_bytes_that_are_no_text_are_told_in_base64(tmp_path):
    record = Record(0, 5, b"\x00", b"line\n", (Header("\udcff", b"\x1b[31m"),))
    log = segment(tmp_path, 0, batch_of(record))
    (told,) = dumped(log, "--records").of_kind("record")
    assert told == {
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
def test_only_the_offsets_asked_for_are_told(log, first, last, batches, records):
    facts = dumped(log, "--records", "--from-offset", str(first), "--to-offset", str(last))
    assert [batch["base_offset"] for batch in facts.of_kind("batch")] == batches
    assert [record["offset"] for record in facts.of_kind("record")] == records


def test_offsets_of_old_wrappers_are_found_although_these_do_not_tell_where_they_begin():
    log = SEGMENTS / "java-magic-1-gzip.log"
    facts = dumped(log, "--records", "--from-offset", "7", "--to-offset", "7")
    assert [batch["last_offset"] for batch in facts.of_kind("batch")] == [9]
    assert [record["offset"] for record in facts.of_kind("record")] == [7]


def test_damage_outside_the_offsets_asked_for_is_found_by_verifying_only(log):
    flip(log, SECOND_AT + 30)
    assert dumped(log, "--to-offset", "1").exit_code == 0
    assert dumped(log, "--to-offset", "1", "--verify").damages[0][1] == SECOND_AT


@pytest.mark.parametrize(
    ("bytes_max", "told"), [(0, 0), (SECOND_AT - 1, 0), (SECOND_AT, 1), (END, 3)]
)
def test_no_more_bytes_are_read_than_asked_for(log, bytes_max, told):
    facts = dumped(log, "--max-bytes", str(bytes_max))
    assert len(facts.of_kind("batch")) == told
    assert facts.exit_code == 0


@pytest.mark.parametrize("position", [*range(8, 12), *range(16, len(SECOND))])
def test_a_flipped_bit_is_damage_wherever_a_checksum_or_a_size_tells(log, position):
    flip(log, SECOND_AT + position)
    facts = dumped(log)
    assert {place for _, place, _ in facts.damages} & {SECOND_AT, THIRD_AT}
    assert facts.of_kind("batch")[0]["base_offset"] == 0


@pytest.mark.parametrize("position", [*range(21, len(SECOND))])
def test_a_batch_with_a_wrong_checksum_is_told_and_the_dump_goes_on(log, position):
    flip(log, SECOND_AT + position, 0x01)
    facts = dumped(log)
    assert [(name, place) for name, place, _ in facts.damages] == [(log.name, SECOND_AT)]
    assert facts.of_kind("batch")[-1]["base_offset"] == 3


def test_the_checksum_that_the_bytes_have_is_told(log):
    flip(log, SECOND_AT + 40)
    (batch,) = [batch for batch in dumped(log).of_kind("batch") if not batch["is_valid"]]
    assert batch["position"] == SECOND_AT
    ((_, _, why),) = dumped(log).damages
    assert why.startswith(f"checksum {batch['checksum']:08x}, but the bytes have ")


@pytest.mark.parametrize("size", [*range(THIRD_AT + 1, END)])
def test_a_torn_batch_at_the_end_is_damage(log, size):
    log.write_bytes(log.read_bytes()[:size])
    facts = dumped(log)
    ((_, position, why),) = facts.damages
    left = size - THIRD_AT
    assert position == THIRD_AT
    expected = f"a batch of {len(THIRD)} bytes is cut short after {left}"
    assert why == (f"{left} bytes at the end, too few for a batch" if left < 26 else expected)
    assert [batch["base_offset"] for batch in facts.of_kind("batch")] == [0, 2]


def test_bytes_that_are_no_batch_end_the_dump_where_no_index_leads_on(log):
    flip(log, SECOND_AT + 16, 0x10)
    facts = dumped(log)
    assert facts.damages == [
        (log.name, SECOND_AT, f"no batch has magic 18 and {len(SECOND)} bytes")
    ]
    assert [batch["base_offset"] for batch in facts.of_kind("batch")] == [0]


@pytest.mark.parametrize("byte", [8, 9, 10, 11, 16], ids=lambda byte: f"byte {byte}")
def test_the_index_leads_on_after_bytes_that_are_no_batch(log, byte):
    log.with_suffix(".index").write_bytes(INDEX_ENTRY.pack(5, THIRD_AT))
    flip(log, SECOND_AT + byte, 0x40)
    facts = dumped(log)
    assert facts.of_kind("batch")[-1]["base_offset"] == 3
    assert facts.of_kind("note")[0]["position"] == THIRD_AT
    assert facts.exit_code == 1


def test_an_index_that_leads_nowhere_does_not_lead_on(log):
    entries = [(1, 7), (2, SECOND_AT), (3, THIRD_AT + 1), (4, END), (5, 2**31)]
    log.with_suffix(".index").write_bytes(b"".join(INDEX_ENTRY.pack(*entry) for entry in entries))
    flip(log, SECOND_AT + 16, 0x10)
    assert len(dumped(log).of_kind("batch")) == 1


def test_zeros_at_the_end_of_the_last_segment_are_room(log):
    log.write_bytes(log.read_bytes() + bytes(1_000_000))
    facts = dumped(log, "--verify")
    assert facts.of_kind("room") == [{"position": END, "size_bytes": 1_000_000}]
    assert facts.exit_code == 0


def test_zeros_at_the_end_of_a_sealed_segment_are_damage_if_that_is_asked(log):
    log.write_bytes(log.read_bytes() + bytes(100))
    segment(log.parent, 6, batch_of(b"g", base_offset=6))
    assert dumped(log).exit_code == 0
    assert dumped(log, "--verify").damages == [
        (log.name, END, "zeros at the end of a sealed segment")
    ]


def test_zeros_before_other_bytes_are_damage(log):
    log.write_bytes(log.read_bytes() + bytes(100) + b"x")
    assert dumped(log).damages == [(log.name, END, "no batch has magic 0 and 12 bytes")]


def test_offsets_that_go_back_are_damage(tmp_path):
    log = segment(tmp_path, 0, FIRST, SECOND, SECOND)
    assert dumped(log).damages == [
        (log.name, SECOND_AT + len(SECOND), "offsets from 2 on, where 3 is next")
    ]


def test_offsets_before_the_segments_own_are_damage(tmp_path):
    log = segment(tmp_path, 3, SECOND)
    assert dumped(log).damages == [(log.name, 0, "offsets from 2 on, where 3 is next")]


def test_offsets_of_the_next_segment_are_damage(tmp_path):
    log = segment(tmp_path, 0, FIRST, SECOND)
    segment(tmp_path, 2, SECOND)
    assert dumped(log).damages == [
        (log.name, SECOND_AT, "offset 2 belongs to the next segment, from 2 on")
    ]


def test_offsets_too_far_from_the_segments_base_are_damage(tmp_path):
    log = segment(tmp_path, 7, batch_of(b"a", base_offset=7 + 2**31))
    assert dumped(log).damages == [
        (log.name, 0, f"offset {7 + 2**31} is too far from the segment's base 7")
    ]


def test_gaps_between_offsets_are_in_order(tmp_path):
    log = segment(tmp_path, 0, FIRST, batch_of(b"z", base_offset=50, last_offset=70))
    assert dumped(log, "--verify").exit_code == 0


def test_records_that_contradict_their_header_are_found_by_verifying(tmp_path):
    log = segment(tmp_path, 0, batch_around(b"\x01\x02", count=5, last_delta=1), SECOND)
    assert dumped(log).exit_code == 0
    for wish in ("--verify", "--records"):
        ((_, position, why),) = dumped(log, wish).damages
        assert (position, why) == (0, "the records: 5 records in 2 bytes")


def test_an_unknown_codec_is_told_as_none_known(tmp_path):
    log = segment(tmp_path, 0, batch_around(b"", count=0, last_delta=0, codec=7))
    facts = dumped(log, "--verify")
    assert facts.of_kind("batch")[0]["codec"] is None
    assert facts.damages == [(log.name, 0, "the records: unknown codec 7")]


def test_a_header_that_makes_no_sense_is_damage_and_the_dump_goes_on(tmp_path):
    senseless = bytearray(FIRST)
    pack_into(">i", senseless, 57, -1)
    log = segment(tmp_path, 0, with_checksum(senseless), SECOND)
    facts = dumped(log)
    assert [position for _, position, _ in facts.damages] == [0]
    assert [batch["base_offset"] for batch in facts.of_kind("batch")] == [2]


def test_markers_are_decoded(tmp_path):
    markers = [
        marker_batch(
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
    ((_, position, why),) = dumped(log, "--verify").damages
    assert position == 0
    assert why.startswith("record 0: a control record with a key of ")


@pytest.mark.parametrize("magic", [1, 2])
def test_a_length_that_is_damaged_does_not_make_it_read_everything(tmp_path, magic):
    size = 4 * segments.LARGE_BATCH_BYTES
    log = segment(tmp_path, 0, FIRST)
    with log.open("r+b") as file:
        file.truncate(len(FIRST) + size)
        file.seek(len(FIRST))
        file.write(pack(">qiIb", 2, size - 12, 0, magic))

    def call():
        facts = dumped(log, "--verify")
        assert [position for _, position, _ in facts.damages] == [len(FIRST)]

    assert peak_bytes(call) < 8 * 1024 * 1024


def test_a_large_batch_is_read_if_its_checksum_is_right(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "LARGE_BATCH_BYTES", 100)
    log = segment(tmp_path, 0, batch_of(b"x" * 1000), batch_of(b"y" * 1000, base_offset=1))
    assert [record["offset"] for record in dumped(log, "--records").of_kind("record")] == [0, 1]
    old = SEGMENTS / "java-magic-1-none.log"
    assert len(dumped(old, "--records").of_kind("record")) == 10


def test_many_batches_take_no_more_memory_than_one(tmp_path):
    content = bytes(batch_of(b"x" * 10_000))
    log = segment(tmp_path, 0)
    with log.open("ab") as file:
        for offset in range(2_000):
            file.write(pack(">q", offset) + content[8:])
    assert log.stat().st_size > 20_000_000
    assert peak_bytes(lambda: dumped(log, "--verify", "--quiet")) < 2 * 1024 * 1024


def as_bytes(told):
    if told is None:
        return None
    return told.encode() if isinstance(told, str) else b64decode(told["base64"])


def flip(path, position, mask=0x80):
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    path.write_bytes(content)
