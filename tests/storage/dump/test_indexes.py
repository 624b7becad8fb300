"""The dump of indexes: their entries and their damage, alone and compared with their log."""

from struct import pack

import pytest

from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.record import Record
from odradek.storage import offset_index, time_index, transaction_index
from tests.support.batches import batch_of
from tests.support.dumps import dumped, segment
from tests.support.memory import peak_bytes

BASE = 100


def batch(offset, *, count, timestamp):
    """Build a batch of ``count`` records whose last record has the timestamp."""
    records = [
        Record(offset + delta, timestamp - count + delta + 1, None, b"v") for delta in range(count)
    ]
    return bytes(batch_of(*records, base_offset=offset))


FIRST = batch(100, count=2, timestamp=1_000)
SECOND = batch(102, count=3, timestamp=3_000)
THIRD = batch(105, count=1, timestamp=2_000)
FOURTH = batch(106, count=4, timestamp=4_000)
ABORT = build_marker_batch(
    EndTransactionMarker(is_commit=False, coordinator_epoch=0),
    timestamp=4_000,
    producer_id=7,
    producer_epoch=0,
    base_offset=110,
)
COMMIT = build_marker_batch(
    EndTransactionMarker(is_commit=True, coordinator_epoch=0),
    timestamp=4_000,
    producer_id=7,
    producer_epoch=0,
    base_offset=111,
)
BATCHES = (FIRST, SECOND, THIRD, FOURTH, ABORT, COMMIT)
POSITIONS = [sum(map(len, BATCHES[:count])) for count in range(len(BATCHES) + 1)]
END = POSITIONS[-1]


@pytest.fixture
def log(tmp_path):
    return segment(tmp_path / "events-0", BASE, *BATCHES)


def write_offset_index(log, *entries):
    """Write an .index with these offsets and positions."""
    return write_entries(
        log, ".index", offset_index.ENTRY, [(o - BASE, position) for o, position in entries]
    )


def write_time_index(log, *entries):
    """Write a .timeindex with these timestamps and offsets."""
    return write_entries(log, ".timeindex", time_index.ENTRY, [(t, o - BASE) for t, o in entries])


def write_transaction_index(log, *entries):
    """Write a .txnindex with these producers, first, last and last stable offsets."""
    return write_entries(
        log, ".txnindex", transaction_index.ENTRY, [(0, *entry) for entry in entries]
    )


def write_entries(log, ending, layout, entries):
    path = log.with_suffix(ending)
    path.write_bytes(b"".join(layout.pack(*entry) for entry in entries))
    return path


def seal(log):
    segment(log.parent, 112, batch_of(b"next", base_offset=112))


def damage_reasons(path, *options):
    return [reason for _, _, reason in dumped(path, *options).damages]


def test_entries_have_absolute_offsets(log):
    assert dumped(write_offset_index(log, (104, POSITIONS[1]))).of_kind("index_entry") == [
        {"slot": 0, "offset": 104, "log_position": POSITIONS[1]}
    ]
    assert dumped(write_time_index(log, (3_000, 104), (4_000, 109))).of_kind(
        "time_index_entry"
    ) == [
        {"slot": 0, "timestamp": 3_000, "offset": 104},
        {"slot": 1, "timestamp": 4_000, "offset": 109},
    ]
    assert dumped(write_transaction_index(log, (7, 90, 110, 80))).of_kind(
        "aborted_transaction"
    ) == [
        {
            "slot": 0,
            "version": 0,
            "producer_id": 7,
            "first_offset": 90,
            "last_offset": 110,
            "last_stable_offset": 80,
        }
    ]


def test_only_entries_of_the_requested_offsets_are_printed(log):
    index = write_offset_index(log, (104, POSITIONS[1]), (105, POSITIONS[2]), (109, POSITIONS[3]))
    dump = dumped(index, "--from-offset", "105", "--to-offset", "108")
    assert [entry["slot"] for entry in dump.of_kind("index_entry")] == [1]


def test_max_bytes_limits_the_entries_that_are_read(log):
    index = write_offset_index(log, (104, POSITIONS[1]), (105, POSITIONS[2]), (BASE, 2**32 - 1))
    dump = dumped(index, "--max-bytes", "16", "--verify")
    assert len(dump.of_kind("index_entry")) == 2
    assert dump.exit_code == 0


def test_valid_indexes_have_no_damage(log):
    seal(log)
    index = write_offset_index(log, (104, POSITIONS[1]), (109, POSITIONS[3]), (111, POSITIONS[5]))
    assert damage_reasons(index, "--verify") == []
    assert damage_reasons(write_time_index(log, (3_000, 104), (4_000, 109)), "--verify") == []
    assert damage_reasons(write_transaction_index(log, (7, 90, 110, 80)), "--verify") == []


def test_empty_index_has_no_damage(log):
    for path in (write_offset_index(log), write_time_index(log), write_transaction_index(log)):
        assert damage_reasons(path, "--verify") == []


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([(104, 90), (104, 95)], "entry 1: offset 104 after 104"),
        ([(104, 90), (103, 95)], "entry 1: offset 103 after 104"),
        ([(104, 90), (105, 90)], "entry 1: position 90 after 90"),
        ([(104, 90), (105, 80)], "entry 1: position 80 after 90"),
        ([(104, 2**31)], "entry 0: position 2147483648 exceeds the maximum size of a segment"),
    ],
)
def test_offset_index_entries_out_of_order_are_damage(log, entries, reason):
    assert damage_reasons(write_offset_index(log, *entries)) == [reason]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([(-1, 104)], "entry 0: invalid timestamp -1"),
        ([(5, 104), (5, 105)], "entry 1: timestamp 5 after 5"),
        ([(5, 104), (4, 105)], "entry 1: timestamp 4 after 5"),
        ([(5, 104), (6, 103)], "entry 1: offset 103 after 104"),
    ],
)
def test_time_index_entries_out_of_order_are_damage(log, entries, reason):
    assert damage_reasons(write_time_index(log, *entries)) == [reason]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([(7, 110, 109, 0)], "entry 0: invalid offsets 110 to 109"),
        ([(7, -1, 109, 0)], "entry 0: invalid offsets -1 to 109"),
        ([(7, 1, 110, 0), (7, 2, 110, 0)], "entry 1: last offset 110 after 110"),
    ],
)
def test_transaction_index_entries_out_of_order_are_damage(log, entries, reason):
    assert damage_reasons(write_transaction_index(log, *entries)) == [reason]


def test_unknown_version_in_a_transaction_index_is_damage(log):
    index = write_transaction_index(log, (7, 1, 2, 3))
    index.write_bytes(b"\0\1" + index.read_bytes()[2:])
    assert damage_reasons(index) == ["entry 0: unknown version 1"]


@pytest.mark.parametrize("cut", range(1, 8))
def test_truncated_entry_is_damage(log, cut):
    index = write_offset_index(log, (104, POSITIONS[1]), (109, 0x01010101))
    index.write_bytes(index.read_bytes()[:-cut])
    dump = dumped(index)
    assert len(dump.of_kind("index_entry")) == 1
    assert dump.damages == [(index.name, 8, f"an entry is truncated after {8 - cut} bytes")]


@pytest.mark.parametrize("size", [8, 4_000, 1_000_000])
def test_zeros_at_the_end_of_the_active_index_are_preallocated_space(log, size):
    index = write_offset_index(log, (104, POSITIONS[1]))
    index.write_bytes(index.read_bytes() + bytes(size))
    dump = dumped(index, "--verify")
    assert len(dump.of_kind("index_entry")) == 1
    assert dump.of_kind("room") == [{"position": 8, "size_bytes": size}]
    assert dump.exit_code == 0


def test_index_of_zeros_has_no_entries(log):
    for path in (write_offset_index(log), write_time_index(log)):
        path.write_bytes(bytes(4_800))
        dump = dumped(path, "--verify")
        assert dump.of_kind("room") == [{"position": 0, "size_bytes": 4_800}]
        assert dump.exit_code == 0


def test_entry_with_timestamp_zero_is_an_entry(tmp_path):
    log = segment(tmp_path, BASE, batch_of(Record(BASE, 0, None, b"1970"), base_offset=BASE))
    seal(log)
    dump = dumped(write_time_index(log, (0, BASE)), "--verify")
    assert dump.of_kind("time_index_entry") == [{"slot": 0, "timestamp": 0, "offset": BASE}]
    assert dump.exit_code == 0


def test_verify_finds_zeros_at_the_end_of_a_sealed_index(log):
    index = write_offset_index(log, (104, POSITIONS[1]))
    index.write_bytes(index.read_bytes() + bytes(80))
    seal(log)
    assert damage_reasons(index) == []
    assert damage_reasons(index, "--verify") == ["the index of a sealed segment was not closed"]


def test_zeros_at_the_end_of_a_transaction_index_are_damage(log):
    index = write_transaction_index(log, (7, 90, 110, 80))
    index.write_bytes(index.read_bytes() + bytes(34))
    assert damage_reasons(index) == ["zeros at the end of an index without preallocation"]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (
            [(104, POSITIONS[1] + 1)],
            f"entry 0: no batch begins at position {POSITIONS[1] + 1}",
        ),
        (
            [(103, POSITIONS[3])],
            f"entry 0: the batch at position {POSITIONS[3]} begins at offset 106, after 103",
        ),
        (
            [(106, POSITIONS[1]), (107, POSITIONS[3])],
            f"entry 0: the batches from position {POSITIONS[1]} end at offset 105, before 106",
        ),
        (
            [(112, POSITIONS[5])],
            f"entry 0: the batches from position {POSITIONS[5]} end at offset 111, before 112",
        ),
        (
            [(111, END)],
            f"entry 0: position {END} is beyond the end of the batches, {END}",
        ),
    ],
)
def test_verify_finds_wrong_offset_index_entries(log, entries, reason):
    index = write_offset_index(log, *entries)
    assert damage_reasons(index) == []
    assert damage_reasons(index, "--verify") == [reason]


@pytest.mark.parametrize("offset", [102, 103, 104, 105])
def test_entry_can_have_any_offset_of_its_append(log, offset):
    index = write_offset_index(log, (offset, POSITIONS[1]), (109, POSITIONS[3]))
    assert damage_reasons(index, "--verify") == []


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (
            [(3_001, 104)],
            "entry 0: timestamp 3001, but the batch with offset 104 has 3000",
        ),
        (
            [(2_000, 105)],
            "entry 0: timestamp 2000, but a batch before offset 105 has 3000",
        ),
        ([(4_000, 112)], "entry 0: offset 112 is beyond the last offset 111"),
    ],
)
def test_verify_finds_wrong_time_index_entries(log, entries, reason):
    index = write_time_index(log, *entries)
    assert damage_reasons(index) == []
    assert damage_reasons(index, "--verify") == [reason]


def test_verify_finds_a_time_index_entry_in_an_offset_gap(tmp_path):
    log = segment(tmp_path, BASE, FIRST, FOURTH)
    assert damage_reasons(write_time_index(log, (4_000, 104)), "--verify") == [
        "entry 0: no batch contains offset 104"
    ]


def test_verify_compares_the_last_entry_with_the_largest_timestamp(log):
    index = write_time_index(log, (3_000, 104))
    assert damage_reasons(index, "--verify") == []
    seal(log)
    assert damage_reasons(index, "--verify") == [
        "the last entry has timestamp 3000, but the largest of the sealed segment is 4000"
    ]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ((8, 90, 110, 80), "entry 0: offset 110 is not an abort marker of producer 8"),
        ((7, 90, 111, 80), "entry 0: offset 111 is not an abort marker of producer 7"),
        ((-1, 90, 105, 80), "entry 0: offset 105 is not an abort marker of producer -1"),
        ((7, 90, 112, 80), "entry 0: offset 112 is beyond the last offset 111"),
    ],
)
def test_verify_finds_index_entries_without_an_abort_marker(log, entry, reason):
    index = write_transaction_index(log, entry)
    assert damage_reasons(index) == []
    assert damage_reasons(index, "--verify") == [reason]


def test_verify_finds_an_index_without_its_log(log):
    index = write_offset_index(log, (104, POSITIONS[1]))
    log.unlink()
    assert damage_reasons(index) == []
    assert damage_reasons(index, "--verify") == [f"{log.name} is missing"]


def test_verify_does_not_compare_deleted_files(log):
    index = write_transaction_index(log, (8, 90, 110, 80))
    deleted = index.rename(f"{index}.deleted")
    log.rename(f"{log}.deleted")
    assert damage_reasons(deleted, "--verify") == []


def test_verify_compares_only_a_whole_index_under_its_name(log):
    index = write_time_index(log, (3_000, 104), (4_000, 109))
    seal(log)
    for dump in (
        dumped("--verify", "--max-bytes", "12", index),
        dumped("--verify", index.rename(index.with_name("copied.timeindex"))),
    ):
        assert dump.exit_code == 0
        assert dump.of_kind("note")[0]["why"].startswith("not checked against its segment: ")


@pytest.mark.parametrize("stage", [".cleaned", ".swap"])
def test_files_of_a_compaction_are_dumped_and_verified(log, stage):
    index = write_offset_index(log, (104, 1))
    staged = index.rename(f"{index}{stage}")
    log.rename(f"{log}{stage}")
    assert damage_reasons(staged, "--verify") == ["entry 0: no batch begins at position 1"]
    assert len(dumped(f"{log}{stage}").of_kind("batch")) == len(BATCHES)


def test_large_index_takes_little_memory(log):
    index = log.with_suffix(".index")
    index.write_bytes(
        b"".join(pack(">II", position, position) for position in range(1, 60_000))
        + bytes(4_000_000)
    )
    assert peak_bytes(lambda: dumped(index, "--quiet", "--verify")) < 2 * 1024 * 1024
