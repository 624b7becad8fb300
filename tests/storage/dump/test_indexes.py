"""The dump of indexes: their entries, and what is wrong with them, alone or beside their log."""

from struct import pack

import pytest

from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.protocol.records.record import Record
from odradek.storage import offset_index, time_index, transaction_index
from tests.support.batches import batch_of
from tests.support.dumps import dumped, segment
from tests.support.memory import peak_bytes

BASE = 100


def batch(offset, *, count, timestamp):
    """Of ``count`` records up to offset + count - 1, the last of which has the timestamp."""
    records = [Record(offset + at, timestamp - count + at + 1, None, b"v") for at in range(count)]
    return bytes(batch_of(*records, base_offset=offset))


FIRST = batch(100, count=2, timestamp=1_000)
SECOND = batch(102, count=3, timestamp=3_000)
THIRD = batch(105, count=1, timestamp=2_000)
FOURTH = batch(106, count=4, timestamp=4_000)
ABORT = marker_batch(
    EndTransactionMarker(is_commit=False, coordinator_epoch=0),
    timestamp=4_000,
    producer_id=7,
    producer_epoch=0,
    base_offset=110,
)
COMMIT = marker_batch(
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


def offsets(log, *entries):
    """An .index with these offsets and positions."""
    return written(log, ".index", offset_index.ENTRY, [(o - BASE, at) for o, at in entries])


def times(log, *entries):
    """A .timeindex with these timestamps and offsets."""
    return written(log, ".timeindex", time_index.ENTRY, [(t, o - BASE) for t, o in entries])


def aborted(log, *entries):
    """A .txnindex with these producers, first, last and last stable offsets."""
    return written(log, ".txnindex", transaction_index.ENTRY, [(0, *entry) for entry in entries])


def written(log, ending, layout, entries):
    path = log.with_suffix(ending)
    path.write_bytes(b"".join(layout.pack(*entry) for entry in entries))
    return path


def seal(log):
    segment(log.parent, 112, batch_of(b"next", base_offset=112))


def reasons(path, *wishes):
    return [why for _, _, why in dumped(path, *wishes).damages]


def test_entries_have_absolute_offsets(log):
    assert dumped(offsets(log, (104, POSITIONS[1]))).of_kind("index_entry") == [
        {"slot": 0, "offset": 104, "log_position": POSITIONS[1]}
    ]
    assert dumped(times(log, (3_000, 104), (4_000, 109))).of_kind("time_index_entry") == [
        {"slot": 0, "timestamp": 3_000, "offset": 104},
        {"slot": 1, "timestamp": 4_000, "offset": 109},
    ]
    assert dumped(aborted(log, (7, 90, 110, 80))).of_kind("aborted_transaction") == [
        {
            "slot": 0,
            "version": 0,
            "producer_id": 7,
            "first_offset": 90,
            "last_offset": 110,
            "last_stable_offset": 80,
        }
    ]


def test_only_entries_about_the_offsets_asked_for_are_told(log):
    index = offsets(log, (104, POSITIONS[1]), (105, POSITIONS[2]), (109, POSITIONS[3]))
    facts = dumped(index, "--from-offset", "105", "--to-offset", "108")
    assert [entry["slot"] for entry in facts.of_kind("index_entry")] == [1]


def test_no_more_entries_are_read_than_asked_for(log):
    index = offsets(log, (104, POSITIONS[1]), (105, POSITIONS[2]), (BASE, 2**32 - 1))
    facts = dumped(index, "--max-bytes", "16", "--verify")
    assert len(facts.of_kind("index_entry")) == 2
    assert facts.exit_code == 0


def test_sound_indexes_are_sound(log):
    seal(log)
    index = offsets(log, (104, POSITIONS[1]), (109, POSITIONS[3]), (111, POSITIONS[5]))
    assert reasons(index, "--verify") == []
    assert reasons(times(log, (3_000, 104), (4_000, 109)), "--verify") == []
    assert reasons(aborted(log, (7, 90, 110, 80)), "--verify") == []


def test_an_empty_index_is_sound(log):
    for path in (offsets(log), times(log), aborted(log)):
        assert reasons(path, "--verify") == []


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(104, 90), (104, 95)], "entry 1: offset 104 after 104"),
        ([(104, 90), (103, 95)], "entry 1: offset 103 after 104"),
        ([(104, 90), (105, 90)], "entry 1: position 90 after 90"),
        ([(104, 90), (105, 80)], "entry 1: position 80 after 90"),
        ([(104, 2**31)], "entry 0: position 2147483648 is in no segment"),
    ],
)
def test_offset_index_entries_out_of_order_are_damage(log, entries, why):
    assert reasons(offsets(log, *entries)) == [why]


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(-1, 104)], "entry 0: timestamp -1"),
        ([(5, 104), (5, 105)], "entry 1: timestamp 5 after 5"),
        ([(5, 104), (4, 105)], "entry 1: timestamp 4 after 5"),
        ([(5, 104), (6, 103)], "entry 1: offset 103 after 104"),
    ],
)
def test_time_index_entries_out_of_order_are_damage(log, entries, why):
    assert reasons(times(log, *entries)) == [why]


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(7, 110, 109, 0)], "entry 0: offsets from 110 to 109"),
        ([(7, -1, 109, 0)], "entry 0: offsets from -1 to 109"),
        ([(7, 1, 110, 0), (7, 2, 110, 0)], "entry 1: last offset 110 after 110"),
    ],
)
def test_transaction_index_entries_out_of_order_are_damage(log, entries, why):
    assert reasons(aborted(log, *entries)) == [why]


def test_an_unknown_version_in_a_transaction_index_is_damage(log):
    index = aborted(log, (7, 1, 2, 3))
    index.write_bytes(b"\0\1" + index.read_bytes()[2:])
    assert reasons(index) == ["entry 0: version 1"]


@pytest.mark.parametrize("cut", range(1, 8))
def test_an_entry_that_is_cut_short_is_damage(log, cut):
    index = offsets(log, (104, POSITIONS[1]), (109, 0x01010101))
    index.write_bytes(index.read_bytes()[:-cut])
    facts = dumped(index)
    assert len(facts.of_kind("index_entry")) == 1
    assert facts.damages == [(index.name, 8, f"an entry is cut short after {8 - cut} bytes")]


@pytest.mark.parametrize("size", [8, 4_000, 1_000_000])
def test_zeros_at_the_end_of_the_last_segments_index_are_room(log, size):
    index = offsets(log, (104, POSITIONS[1]))
    index.write_bytes(index.read_bytes() + bytes(size))
    facts = dumped(index, "--verify")
    assert len(facts.of_kind("index_entry")) == 1
    assert facts.of_kind("room") == [{"position": 8, "size_bytes": size}]
    assert facts.exit_code == 0


def test_an_index_of_nothing_but_zeros_has_no_entries(log):
    for path in (offsets(log), times(log)):
        path.write_bytes(bytes(4_800))
        facts = dumped(path, "--verify")
        assert facts.of_kind("room") == [{"position": 0, "size_bytes": 4_800}]
        assert facts.exit_code == 0


def test_an_entry_for_the_beginning_of_time_is_an_entry(tmp_path):
    log = segment(tmp_path, BASE, batch_of(Record(BASE, 0, None, b"1970"), base_offset=BASE))
    seal(log)
    facts = dumped(times(log, (0, BASE)), "--verify")
    assert facts.of_kind("time_index_entry") == [{"slot": 0, "timestamp": 0, "offset": BASE}]
    assert facts.exit_code == 0


def test_zeros_at_the_end_of_a_sealed_segments_index_are_damage_if_that_is_asked(log):
    index = offsets(log, (104, POSITIONS[1]))
    index.write_bytes(index.read_bytes() + bytes(80))
    seal(log)
    assert reasons(index) == []
    assert reasons(index, "--verify") == ["the index of a sealed segment was not closed"]


def test_zeros_at_the_end_of_a_transaction_index_are_damage(log):
    index = aborted(log, (7, 90, 110, 80))
    index.write_bytes(index.read_bytes() + bytes(34))
    assert reasons(index) == ["zeros at the end of an index that has no room ahead"]


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        (
            [(104, POSITIONS[1] + 1)],
            f"entry 0: no batch begins at position {POSITIONS[1] + 1}",
        ),
        (
            [(103, POSITIONS[3])],
            f"entry 0: at position {POSITIONS[3]} begins offset 106, after 103",
        ),
        (
            [(106, POSITIONS[1]), (107, POSITIONS[3])],
            f"entry 0: what begins at position {POSITIONS[1]} ends with offset 105, before 106",
        ),
        (
            [(112, POSITIONS[5])],
            f"entry 0: what begins at position {POSITIONS[5]} ends with offset 111, before 112",
        ),
        (
            [(111, END)],
            f"entry 0: position {END} lies beyond the batches, which end at {END}",
        ),
    ],
)
def test_offset_index_entries_that_lead_astray_are_damage_if_that_is_asked(log, entries, why):
    index = offsets(log, *entries)
    assert reasons(index) == []
    assert reasons(index, "--verify") == [why]


@pytest.mark.parametrize("offset", [102, 103, 104, 105])
def test_an_entry_may_name_any_offset_up_to_the_end_of_what_was_appended_at_once(log, offset):
    index = offsets(log, (offset, POSITIONS[1]), (109, POSITIONS[3]))
    assert reasons(index, "--verify") == []


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        (
            [(3_001, 104)],
            "entry 0: timestamp 3001, but the batch with offset 104 has 3000",
        ),
        (
            [(2_000, 105)],
            "entry 0: timestamp 2000, but a batch before offset 105 has 3000",
        ),
        ([(4_000, 112)], "entry 0: offset 112 lies beyond the last one, 111"),
    ],
)
def test_time_index_entries_that_are_not_true_are_damage_if_that_is_asked(log, entries, why):
    index = times(log, *entries)
    assert reasons(index) == []
    assert reasons(index, "--verify") == [why]


def test_a_time_index_entry_in_a_gap_is_damage(tmp_path):
    log = segment(tmp_path, BASE, FIRST, FOURTH)
    assert reasons(times(log, (4_000, 104)), "--verify") == ["entry 0: no batch holds offset 104"]


def test_the_last_entry_of_a_sealed_segment_has_its_largest_timestamp(log):
    index = times(log, (3_000, 104))
    assert reasons(index, "--verify") == []
    seal(log)
    assert reasons(index, "--verify") == [
        "the last entry has timestamp 3000, but the largest of the sealed segment is 4000"
    ]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ((8, 90, 110, 80), "entry 0: at offset 110 is no abort marker of producer 8"),
        ((7, 90, 111, 80), "entry 0: at offset 111 is no abort marker of producer 7"),
        ((-1, 90, 105, 80), "entry 0: at offset 105 is no abort marker of producer -1"),
        ((7, 90, 112, 80), "entry 0: offset 112 lies beyond the last one, 111"),
    ],
)
def test_transactions_that_were_not_aborted_are_damage_if_that_is_asked(log, entry, why):
    index = aborted(log, entry)
    assert reasons(index) == []
    assert reasons(index, "--verify") == [why]


def test_an_index_without_its_log_is_damage_if_that_is_asked(log):
    index = offsets(log, (104, POSITIONS[1]))
    log.unlink()
    assert reasons(index) == []
    assert reasons(index, "--verify") == [f"there is no {log.name}"]


def test_deleted_files_need_not_fit_together(log):
    index = aborted(log, (8, 90, 110, 80))
    deleted = index.rename(f"{index}.deleted")
    log.rename(f"{log}.deleted")
    assert reasons(deleted, "--verify") == []


def test_an_index_is_compared_only_as_a_whole_and_under_its_own_name(log):
    index = times(log, (3_000, 104), (4_000, 109))
    seal(log)
    for facts in (
        dumped("--verify", "--max-bytes", "12", index),
        dumped("--verify", index.rename(index.with_name("copied.timeindex"))),
    ):
        assert facts.exit_code == 0
        assert facts.of_kind("note")[0]["why"].startswith("not compared with its segment: ")


@pytest.mark.parametrize("stage", [".cleaned", ".swap"])
def test_the_files_of_a_compaction_are_dumped_and_verified(log, stage):
    index = offsets(log, (104, 1))
    staged = index.rename(f"{index}{stage}")
    log.rename(f"{log}{stage}")
    assert reasons(staged, "--verify") == ["entry 0: no batch begins at position 1"]
    assert len(dumped(f"{log}{stage}").of_kind("batch")) == len(BATCHES)


def test_a_large_index_takes_little_memory(log):
    index = log.with_suffix(".index")
    index.write_bytes(b"".join(pack(">II", at, at) for at in range(1, 60_000)) + bytes(4_000_000))
    assert peak_bytes(lambda: dumped(index, "--quiet", "--verify")) < 2 * 1024 * 1024
