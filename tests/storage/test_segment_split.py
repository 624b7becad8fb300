"""A segment whose offsets are too far apart for its indexes, made into several."""

import os
from struct import pack_into

import pytest

from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.storage.log_loader import Findings
from odradek.storage.offset_index import RELATIVE_OFFSET_MAX
from odradek.storage.paths import Content, file_named, file_path
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
    """A segment that reaches too far, and an active one."""
    directory = tmp_path / "events-0"
    directory.mkdir()
    put(directory, 0, *(batch_at(offset) for offset in OFFSETS))
    put(directory, LAST, batch_at(LAST))
    return directory


def batch_at(offset, **fields):
    return moved(records_batch(b"%d" % offset, **fields), offset)


def moved(batch, offset):
    pack_into(">q", batch, 0, offset)
    return batch


def put(directory, base_offset, *batches):
    file_path(directory, base_offset, Content.BATCHES).write_bytes(b"".join(batches))


def files_of(directory):
    return {path: path.read_bytes() for path in directory.iterdir()}


def restore(directory, files):
    for path in directory.iterdir():
        path.unlink()
    for path, content in files.items():
        path.write_bytes(content)


def base_offsets(directory):
    names = [file_named(path.name) for path in directory.glob("*.log")]
    return sorted(name.offset for name in names)


def offsets_in(log):
    return [record.offset for record in records_from(log)]


@pytest.mark.parametrize("start", [opened, recovered])
def test_no_record_is_lost_and_each_is_found(directory, start):
    log = start(directory, index_interval_bytes=0)
    assert base_offsets(directory) == SPLIT
    assert offsets_in(log) == [*OFFSETS, LAST]
    for offset in OFFSETS:
        assert batches_from(log, offset)[0].last_offset == offset
    assert append(log, b"next").first_offset == LAST + 1


def test_the_bytes_of_the_batches_stay_as_they_are(directory):
    before = file_path(directory, 0, Content.BATCHES).read_bytes()
    opened(directory)
    parts = [file_path(directory, base, Content.BATCHES).read_bytes() for base in SPLIT[:-1]]
    assert b"".join(parts) == before


def test_it_is_reported_once(directory):
    first, second = Findings(), Findings()
    opened(directory, first).close(now_ms=NOW_MS)
    opened(directory, second, recovery_point=LAST + 1)
    assert "KAFKA-6264" in first.notes[0]
    assert second.notes == []


def test_the_parts_are_as_old_as_the_whole(directory):
    written_ns = 1_600_000_000_000_000_000
    os.utime(file_path(directory, 0, Content.BATCHES), ns=(written_ns, written_ns))
    opened(directory)
    for base_offset in SPLIT[:-1]:
        assert file_path(directory, base_offset, Content.BATCHES).stat().st_mtime_ns == written_ns


def test_a_first_batch_that_is_too_far_off_leaves_an_empty_segment_before_it(directory):
    put(directory, 0, batch_at(2 * FAR))
    log = recovered(directory)
    assert base_offsets(directory) == [0, FAR + 1, LAST]
    assert offsets_in(log) == [2 * FAR, LAST]


def test_what_was_aborted_stays_so(directory):
    sent = {"producer_id": 7, "producer_epoch": 0}
    marker = marker_batch(EndTransactionMarker(False, 0), timestamp=NOW_MS, **sent)
    opening = batch_at(3, is_transactional=True, base_sequence=0, **sent)
    put(directory, 0, batch_at(0), opening, moved(marker, FAR), batch_at(FAR + 1))
    log = opened(directory)
    (aborted,) = log.aborted_transactions(start=0, end=LAST)
    assert (aborted.first_offset, aborted.last_offset) == (3, FAR)
    assert log.last_stable_offset == LAST + 1


def test_an_old_wrapper_that_tells_only_its_last_offset_is_not_torn_from_its_first(directory):
    inner = b"".join(message(1, b"%d" % number, offset=number) for number in range(3))
    put(directory, 0, message(1, b"a"), wrapper(1, inner, offset=FAR + 2))
    log = opened(directory)
    assert base_offsets(directory) == [0, 3, LAST]
    assert offsets_in(log) == [0, FAR, FAR + 1, FAR + 2, LAST]


@pytest.mark.parametrize(
    "offsets", [[0, FAR, 5], [0, FAR, LAST], [0, FAR, FAR]], ids=["back", "beyond", "twice"]
)
def test_offsets_that_do_not_ascend_to_the_next_segment_are_damage(directory, offsets):
    put(directory, 0, *(batch_at(offset) for offset in offsets))
    findings = Findings()
    recovered(directory, findings)
    assert findings.removed_bytes > 0
    assert base_offsets(directory) == [0]


def test_an_offset_that_is_too_far_off_in_the_active_segment_is_damage(directory):
    put(directory, LAST, batch_at(LAST), batch_at(LAST + FAR))
    log = recovered(directory)
    assert offsets_in(log) == [*OFFSETS, LAST]


def test_a_segment_that_ends_long_before_the_next_is_left_alone(directory):
    put(directory, 0, batch_at(0), batch_at(RELATIVE_OFFSET_MAX))
    recovered(directory)
    assert base_offsets(directory) == [0, LAST]


@pytest.mark.parametrize("start", [opened, recovered])
def test_a_crash_at_any_call_loses_nothing(directory, start):
    before = files_of(directory)
    for fail_at in range(1, 200):
        restore(directory, before)
        with FaultyDisk(fail_at=fail_at, persists=True) as disk:
            try:
                start(directory, **SMALL)
            except OSError:
                assert disk.failed_calls
        assert offsets_in(recovered(directory, **SMALL)) == [*OFFSETS, LAST], disk
        assert base_offsets(directory) == SPLIT
        if not disk.failed_calls:
            break
    assert fail_at > 20


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_at_any_call_loses_nothing(directory, seed):
    before = files_of(directory)
    is_over, off_at = False, 0
    while not is_over:
        off_at += 1
        restore(directory, before)
        with PowerCut(directory, seed, off_at=off_at) as disk:
            try:
                opened(directory, recovery_point=LAST + 1, **SMALL)
                is_over = True
            except PowerIsOff:
                is_over = False
            disk.cut()
            log = opened(directory, recovery_point=LAST + 1, **SMALL)
        assert offsets_in(log) == [*OFFSETS, LAST], str(disk)
        assert base_offsets(directory) == SPLIT, str(disk)
