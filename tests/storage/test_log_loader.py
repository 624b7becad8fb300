"""Loading a log from its directory after a clean or unclean shutdown."""

import pytest

from odradek.storage import files
from odradek.storage.log_loader import LogLoadReport, recover_log
from odradek.storage.paths import LogFileType
from odradek.storage.retention import apply_retention
from odradek.storage.timestamp_lookup import offset_for_timestamp
from tests.support.logs import (
    NOW_MS,
    append,
    end_transaction,
    opened,
    place_of,
    records_from,
    recovered,
)
from tests.support.power_cut import PowerCut


def values(log):
    return [record.value for record in records_from(log)]


def filled(directory, count=10, **settings):
    log = opened(directory, segment_bytes=600, **settings)
    for number in range(count):
        append(log, b"%03d" % number + bytes(200), timestamp=NOW_MS + number)
    return log


def test_new_directory_is_an_empty_log(tmp_path):
    log = opened(tmp_path / "events-0")
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)


def test_cleanly_closed_log_opens_unchanged(tmp_path):
    log = filled(tmp_path / "events-0")
    before = values(log)
    log.close(now_ms=NOW_MS)
    load_report = LogLoadReport()
    reopened = opened(tmp_path / "events-0", load_report, segment_bytes=600)
    assert values(reopened) == before
    assert load_report == LogLoadReport()
    assert append(reopened, b"next").first_offset == 10


def test_log_that_was_not_closed_is_recovered_unchanged(tmp_path):
    log = filled(tmp_path / "events-0")
    before = values(log)
    log.close_handlers()
    load_report = LogLoadReport()
    reopened = recovered(tmp_path / "events-0", load_report, segment_bytes=600)
    assert values(reopened) == before
    assert load_report.problems == []


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_lost_end_of_a_sealed_segment_is_reported_unless_the_log_is_compacted(tmp_path, policy):
    log = opened(tmp_path / "events-0", cleanup_policy=(policy,))
    for number in range(4):
        append(log, b"%d" % number, key=b"k")
    log.roll(now_ms=NOW_MS)
    append(log, b"4", key=b"k")
    path = log.segments.first.path(LogFileType.LOG)
    log.close_handlers()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    load_report = LogLoadReport()
    reopened = recovered(tmp_path / "events-0", load_report, cleanup_policy=(policy,))
    assert values(reopened) == [b"0", b"1", b"4"]
    assert len(load_report.problems) == (1 if policy == "delete" else 0)
    assert all("offsets from 2 to" in problem for problem in load_report.problems)


def test_s3_flipped_byte_before_the_recovery_point_is_left_alone(tmp_path):
    log = filled(tmp_path / "events-0")
    log.flush(now_ms=NOW_MS)
    recovery_point = log.recovery_point
    path = list(log.segments)[1].path(LogFileType.LOG)
    log.close_handlers()
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    reopened = recovered(tmp_path / "events-0", segment_bytes=600, recovery_point=recovery_point)
    assert reopened.log_end_offset == 10
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX])
@pytest.mark.parametrize("damage", ["missing", "short", "long", "zeros"])
def test_s4_damaged_indexes_do_not_change_lookup_results(tmp_path, content, damage):
    log = filled(tmp_path / "events-0", index_interval_bytes=0)
    expected = values(log)
    log.close(now_ms=NOW_MS)
    for path in (tmp_path / "events-0").glob("*" + content.value):
        stored = path.read_bytes()
        path.write_bytes({"short": stored[:-3], "long": stored + b"xyz"}.get(damage, b""))
        if damage == "missing":
            path.unlink()
        if damage == "zeros":
            path.write_bytes(stored + bytes(120))
    reopened = opened(tmp_path / "events-0", segment_bytes=600)
    assert values(reopened) == expected
    for number in range(10):
        timestamp_and_offset = offset_for_timestamp(reopened, NOW_MS + number)
        assert (timestamp_and_offset.offset, timestamp_and_offset.timestamp) == (
            number,
            NOW_MS + number,
        )


def transactional_log(directory):
    log = opened(directory)
    producer = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    for producer_id in (1, 2, 3):
        append(log, b"x%d" % producer_id, producer_id=producer_id, **producer)
    end_transaction(log, producer_id=1, commit=False)
    log.roll(now_ms=NOW_MS)
    end_transaction(log, producer_id=2, commit=True)
    append(log, b"y")
    return log


def known_state(log):
    return (
        log.last_stable_offset,
        log.collect_aborted_transactions(start=0, end=log.log_end_offset),
        dict(log.producer_state_manager.active_producers),
    )


@pytest.mark.parametrize("is_clean", [True, False])
def test_transactions_and_producers_survive_a_restart(tmp_path, is_clean):
    log = transactional_log(tmp_path / "events-0")
    before = known_state(log)
    if is_clean:
        log.close(now_ms=NOW_MS)
        reopened = opened(tmp_path / "events-0")
    else:
        log.close_handlers()
        reopened = recovered(tmp_path / "events-0")
    assert known_state(reopened) == before


@pytest.mark.parametrize("damage", [b"", b"\x00" * 50, None])
def test_s4_producer_state_is_rebuilt_from_batches_after_snapshot_damage(tmp_path, damage):
    log = transactional_log(tmp_path / "events-0")
    before = known_state(log)
    log.close(now_ms=NOW_MS)
    for path in (tmp_path / "events-0").glob("*.snapshot"):
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
    assert known_state(opened(tmp_path / "events-0")) == before


@pytest.mark.parametrize("damage", [b"\x00\x01", b"\xff" * 34, b"\x00" * 33])
def test_s4_damaged_transaction_index_is_rebuilt(tmp_path, damage):
    log = transactional_log(tmp_path / "events-0")
    before = known_state(log)
    log.close(now_ms=NOW_MS)
    (path,) = (tmp_path / "events-0").glob("*.txnindex")
    path.write_bytes(damage)
    load_report = LogLoadReport()
    assert known_state(opened(tmp_path / "events-0", load_report)) == before
    assert len(load_report.problems) == 1


def test_damaged_epoch_checkpoint_is_rebuilt_from_the_batches(tmp_path):
    log = opened(tmp_path / "events-0")
    append(log, b"a", leader_epoch=1)
    append(log, b"b", leader_epoch=4)
    before = log.leader_epoch_cache.entries
    log.close(now_ms=NOW_MS)
    (tmp_path / "events-0" / "leader-epoch-checkpoint").write_bytes(b"0\n5\n")
    load_report = LogLoadReport()
    reopened = opened(tmp_path / "events-0", load_report)
    assert reopened.leader_epoch_cache.entries == before
    assert load_report.problems


def test_leftover_files_of_a_crash_are_removed(tmp_path):
    directory = tmp_path / "events-0"
    filled(directory).close(now_ms=NOW_MS)
    for name in (
        "00000000000000000099.log.deleted",
        "00000000000000000099.index",
        "00000000000000000050.log.cleaned",
        "00000000000000000050.snapshot.tmp",
        "leader-epoch-checkpoint.tmp",
    ):
        (directory / name).write_bytes(b"x")
    log = opened(directory, segment_bytes=600)
    assert log.log_end_offset == 10
    endings = {path.suffix for path in directory.iterdir()}
    assert endings <= {".log", ".index", ".timeindex", ".snapshot", ""}
    assert not (directory / "00000000000000000099.index").exists()


def test_log_start_offset_beyond_the_end_empties_the_log(tmp_path):
    filled(tmp_path / "events-0").close(now_ms=NOW_MS)
    load_report = LogLoadReport()
    log = opened(tmp_path / "events-0", load_report, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert load_report.problems


def test_only_unflushed_segments_are_recovered(tmp_path):
    log = filled(tmp_path / "events-0")
    log.flush(now_ms=NOW_MS)
    log.close_handlers()
    log_location = place_of(tmp_path / "events-0", segment_bytes=600, recovery_point=10)
    assert recover_log(log_location).recovered_segments == 1


@pytest.mark.parametrize("seed", range(8))
def test_producers_of_a_segment_deleted_after_a_recovery_survive_a_power_cut(tmp_path, seed):
    directory = tmp_path / "events-0"
    with PowerCut(tmp_path, seed) as disk:
        files.system.mkdir(directory)
        log = opened(directory)
        append(log, b"a", producer_id=7, producer_epoch=3, base_sequence=0)
        log.roll(now_ms=NOW_MS)
        append(log, b"b")
        log.close_handlers()
        log = recovered(directory)
        log.flush(now_ms=NOW_MS)
        files.sync_directory(tmp_path)
        log.maybe_increment_log_start_offset(1)
        apply_retention(log, now_ms=NOW_MS)
        flushed = {"recovery_point": log.recovery_point, "log_start_offset": log.log_start_offset}
        log.close_handlers()
        disk.cut()
        log = recovered(directory, **flushed)
    assert 7 in log.producer_state_manager.active_producers, disk


def test_recovery_progress_is_reported_per_segment(tmp_path):
    filled(tmp_path / "events-0").close_handlers()
    progress_calls = []
    recover_log(
        place_of(tmp_path / "events-0", segment_bytes=600),
        progress=lambda done, total: progress_calls.append((done, total)),
    )
    assert progress_calls == [(done, 5) for done in range(5)]
