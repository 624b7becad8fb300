"""A segment whose offsets are too far apart for its indexes is split into several."""

import os
from struct import pack_into

import pytest

from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.storage.log_loader import LogLoadReport
from odradek.storage.offset_index import RELATIVE_OFFSET_MAX
from odradek.storage.paths import LogFileType, file_path, parse_file_name
from tests.support.faulty_disk import FaultyDisk
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import (
    NOW_MS,
    append,
    batches_from,
    opened,
    records_batch,
    records_from,
    recovered,
)
from tests.support.power_cut import PowerCut, PowerIsOff

FAR = RELATIVE_OFFSET_MAX + 1
OFFSETS = [0, 5, FAR, FAR + 1, 3 * FAR]
LAST = 4 * FAR
SPLIT = [0, 6, 2 * FAR + 1, LAST]
SMALL = {"segment_index_bytes": 800}


@pytest.fixture
def directory(tmp_path):
    """A directory with one segment whose offsets are too far apart, and an active segment."""
    directory = tmp_path / "events-0"
    directory.mkdir()
    write_segment(directory, 0, *(batch_at(offset) for offset in OFFSETS))
    write_segment(directory, LAST, batch_at(LAST))
    return directory


def batch_at(offset, **fields):
    return with_base_offset(records_batch(b"%d" % offset, **fields), offset)


def with_base_offset(batch, offset):
    pack_into(">q", batch, 0, offset)
    return batch


def write_segment(directory, base_offset, *batches):
    file_path(directory, base_offset, LogFileType.LOG).write_bytes(b"".join(batches))


def read_files(directory):
    return {path: path.read_bytes() for path in directory.iterdir()}


def restore_files(directory, files):
    for path in directory.iterdir():
        path.unlink()
    for path, content in files.items():
        path.write_bytes(content)


def base_offsets(directory):
    names = [parse_file_name(path.name) for path in directory.glob("*.log")]
    return sorted(name.offset for name in names)


def offsets_in(log):
    return [record.offset for record in records_from(log)]


@pytest.mark.parametrize("load", [opened, recovered])
def test_no_record_is_lost_and_each_is_found(directory, load):
    log = load(directory, index_interval_bytes=0)
    assert base_offsets(directory) == SPLIT
    assert offsets_in(log) == [*OFFSETS, LAST]
    for offset in OFFSETS:
        assert batches_from(log, offset)[0].last_offset == offset
    assert append(log, b"next").first_offset == LAST + 1


def test_split_does_not_change_the_bytes_of_the_batches(directory):
    before = file_path(directory, 0, LogFileType.LOG).read_bytes()
    opened(directory)
    parts = [file_path(directory, base, LogFileType.LOG).read_bytes() for base in SPLIT[:-1]]
    assert b"".join(parts) == before


def test_split_is_reported_once(directory):
    first, second = LogLoadReport(), LogLoadReport()
    opened(directory, first).close(now_ms=NOW_MS)
    opened(directory, second, recovery_point=LAST + 1)
    assert "KAFKA-6264" in first.problems[0]
    assert second.problems == []


def test_parts_keep_the_modification_time(directory):
    modified_ns = 1_600_000_000_000_000_000
    os.utime(file_path(directory, 0, LogFileType.LOG), ns=(modified_ns, modified_ns))
    opened(directory)
    for base_offset in SPLIT[:-1]:
        assert file_path(directory, base_offset, LogFileType.LOG).stat().st_mtime_ns == modified_ns


def test_first_batch_too_far_away_leaves_an_empty_segment_before_it(directory):
    write_segment(directory, 0, batch_at(2 * FAR))
    log = recovered(directory)
    assert base_offsets(directory) == [0, FAR + 1, LAST]
    assert offsets_in(log) == [2 * FAR, LAST]


def test_aborted_transaction_stays_aborted(directory):
    producer = {"producer_id": 7, "producer_epoch": 0}
    marker = build_marker_batch(EndTransactionMarker(False, 0), timestamp=NOW_MS, **producer)
    opening = batch_at(3, is_transactional=True, base_sequence=0, **producer)
    write_segment(
        directory, 0, batch_at(0), opening, with_base_offset(marker, FAR), batch_at(FAR + 1)
    )
    log = opened(directory)
    (aborted,) = log.collect_aborted_transactions(start=0, end=LAST)
    assert (aborted.first_offset, aborted.last_offset) == (3, FAR)
    assert log.last_stable_offset == LAST + 1


def test_legacy_wrapper_gets_a_base_offset_before_its_first_message(directory):
    inner = b"".join(message(1, b"%d" % number, offset=number) for number in range(3))
    write_segment(directory, 0, message(1, b"a"), wrapper(1, inner, offset=FAR + 2))
    log = opened(directory)
    assert base_offsets(directory) == [0, 3, LAST]
    assert offsets_in(log) == [0, FAR, FAR + 1, FAR + 2, LAST]


@pytest.mark.parametrize(
    "offsets", [[0, FAR, 5], [0, FAR, LAST], [0, FAR, FAR]], ids=["back", "beyond", "twice"]
)
def test_offsets_that_do_not_ascend_to_the_next_segment_are_corrupt(directory, offsets):
    write_segment(directory, 0, *(batch_at(offset) for offset in offsets))
    load_report = LogLoadReport()
    recovered(directory, load_report)
    assert load_report.removed_bytes > 0
    assert base_offsets(directory) == [0]


def test_offset_too_far_away_in_the_active_segment_is_corrupt(directory):
    write_segment(directory, LAST, batch_at(LAST), batch_at(LAST + FAR))
    log = recovered(directory)
    assert offsets_in(log) == [*OFFSETS, LAST]


def test_segment_that_ends_long_before_the_next_is_not_split(directory):
    write_segment(directory, 0, batch_at(0), batch_at(RELATIVE_OFFSET_MAX))
    recovered(directory)
    assert base_offsets(directory) == [0, LAST]


@pytest.mark.parametrize("load", [opened, recovered])
def test_crash_at_any_call_loses_nothing(directory, load):
    before = read_files(directory)
    for fail_at in range(1, 200):
        restore_files(directory, before)
        with FaultyDisk(fail_at=fail_at, persists=True) as disk:
            try:
                load(directory, **SMALL)
            except OSError:
                assert disk.failed_calls
        assert offsets_in(recovered(directory, **SMALL)) == [*OFFSETS, LAST], disk
        assert base_offsets(directory) == SPLIT
        if not disk.failed_calls:
            break
    assert fail_at > 20


@pytest.mark.parametrize("seed", range(6))
def test_power_cut_at_any_call_loses_nothing(directory, seed):
    before = read_files(directory)
    is_complete, off_at = False, 0
    while not is_complete:
        off_at += 1
        restore_files(directory, before)
        with PowerCut(directory, seed, off_at=off_at) as disk:
            try:
                opened(directory, recovery_point=LAST + 1, **SMALL)
                is_complete = True
            except PowerIsOff:
                is_complete = False
            disk.cut()
            log = opened(directory, recovery_point=LAST + 1, **SMALL)
        assert offsets_in(log) == [*OFFSETS, LAST], str(disk)
        assert base_offsets(directory) == SPLIT, str(disk)
