"""Opening a partition's directory, clean or not."""

import pytest

from odradek.storage import files
from odradek.storage.log_loader import Findings, recover
from odradek.storage.log_lookup import first_at_or_after
from odradek.storage.paths import Content
from odradek.storage.retention import apply_retention
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


def test_a_new_directory_is_an_empty_log(tmp_path):
    log = opened(tmp_path / "events-0")
    assert (log.start_offset, log.end_offset, log.size_bytes) == (0, 0, 0)


def test_a_closed_log_opens_as_it_was(tmp_path):
    log = filled(tmp_path / "events-0")
    before = values(log)
    log.close(now_ms=NOW_MS)
    findings = Findings()
    reopened = opened(tmp_path / "events-0", findings, segment_bytes=600)
    assert values(reopened) == before
    assert findings == Findings()
    assert append(reopened, b"next").first_offset == 10


def test_an_abandoned_log_is_recovered_as_it_was(tmp_path):
    log = filled(tmp_path / "events-0")
    before = values(log)
    log.abandon()
    findings = Findings()
    again = recovered(tmp_path / "events-0", findings, segment_bytes=600)
    assert values(again) == before
    assert findings.notes == []


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_the_lost_end_of_a_segment_before_another_is_told_unless_gaps_are_usual(tmp_path, policy):
    log = opened(tmp_path / "events-0", cleanup_policy=(policy,))
    for number in range(4):
        append(log, b"%d" % number, key=b"k")
    log.roll(now_ms=NOW_MS)
    append(log, b"4", key=b"k")
    path = log.segments.first.path(Content.BATCHES)
    log.abandon()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    findings = Findings()
    again = recovered(tmp_path / "events-0", findings, cleanup_policy=(policy,))
    assert values(again) == [b"0", b"1", b"4"]
    assert len(findings.notes) == (1 if policy == "delete" else 0)
    assert all("the offsets from 2 on" in note for note in findings.notes)


def test_s3_a_flipped_byte_before_the_recovery_point_is_left_alone(tmp_path):
    log = filled(tmp_path / "events-0")
    log.flush(now_ms=NOW_MS)
    recovery_point = log.recovery_point
    path = list(log.segments)[1].path(Content.BATCHES)
    log.abandon()
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    again = recovered(tmp_path / "events-0", segment_bytes=600, recovery_point=recovery_point)
    assert again.end_offset == 10
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [Content.OFFSET_INDEX, Content.TIME_INDEX])
@pytest.mark.parametrize("damage", ["missing", "short", "long", "zeros"])
def test_s4_damaged_indexes_change_no_answer(tmp_path, content, damage):
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
    again = opened(tmp_path / "events-0", segment_bytes=600)
    assert values(again) == expected
    for number in range(10):
        found = first_at_or_after(again, NOW_MS + number)
        assert (found.offset, found.timestamp) == (number, NOW_MS + number)


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


def facts(log):
    return (
        log.last_stable_offset,
        log.aborted_transactions(start=0, end=log.end_offset),
        dict(log.producers.states),
    )


@pytest.mark.parametrize("is_clean", [True, False])
def test_transactions_and_producers_survive(tmp_path, is_clean):
    log = transactional_log(tmp_path / "events-0")
    before = facts(log)
    if is_clean:
        log.close(now_ms=NOW_MS)
        again = opened(tmp_path / "events-0")
    else:
        log.abandon()
        again = recovered(tmp_path / "events-0")
    assert facts(again) == before


@pytest.mark.parametrize("damage", [b"", b"\x00" * 50, None])
def test_s4_a_damaged_snapshot_is_made_up_for_by_the_batches(tmp_path, damage):
    log = transactional_log(tmp_path / "events-0")
    before = facts(log)
    log.close(now_ms=NOW_MS)
    for path in (tmp_path / "events-0").glob("*.snapshot"):
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
    assert facts(opened(tmp_path / "events-0")) == before


@pytest.mark.parametrize("damage", [b"\x00\x01", b"\xff" * 34, b"\x00" * 33])
def test_s4_a_damaged_transaction_index_is_made_anew(tmp_path, damage):
    log = transactional_log(tmp_path / "events-0")
    before = facts(log)
    log.close(now_ms=NOW_MS)
    (path,) = (tmp_path / "events-0").glob("*.txnindex")
    path.write_bytes(damage)
    findings = Findings()
    assert facts(opened(tmp_path / "events-0", findings)) == before
    assert len(findings.notes) == 1


def test_damaged_epochs_are_found_again_in_the_batches(tmp_path):
    log = opened(tmp_path / "events-0")
    append(log, b"a", leader_epoch=1)
    append(log, b"b", leader_epoch=4)
    before = log.epochs.entries
    log.close(now_ms=NOW_MS)
    (tmp_path / "events-0" / "leader-epoch-checkpoint").write_bytes(b"0\n5\n")
    findings = Findings()
    again = opened(tmp_path / "events-0", findings)
    assert again.epochs.entries == before
    assert findings.notes


def test_leftovers_of_a_crash_are_cleared_away(tmp_path):
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
    assert log.end_offset == 10
    endings = {path.suffix for path in directory.iterdir()}
    assert endings <= {".log", ".index", ".timeindex", ".snapshot", ""}
    assert not (directory / "00000000000000000099.index").exists()


def test_a_start_beyond_the_end_empties_the_log(tmp_path):
    filled(tmp_path / "events-0").close(now_ms=NOW_MS)
    findings = Findings()
    log = opened(tmp_path / "events-0", findings, start_offset=500)
    assert (log.start_offset, log.end_offset) == (500, 500)
    assert findings.notes


def test_recovery_costs_no_more_than_what_was_not_synced(tmp_path):
    log = filled(tmp_path / "events-0")
    log.flush(now_ms=NOW_MS)
    log.abandon()
    place = place_of(tmp_path / "events-0", segment_bytes=600, recovery_point=10)
    assert recover(place).recovered_segments == 1


@pytest.mark.parametrize("seed", range(8))
def test_producers_of_a_segment_deleted_after_a_recovery_survive_a_power_cut(tmp_path, seed):
    directory = tmp_path / "events-0"
    with PowerCut(tmp_path, seed) as disk:
        files.system.mkdir(directory)
        log = opened(directory)
        append(log, b"a", producer_id=7, producer_epoch=3, base_sequence=0)
        log.roll(now_ms=NOW_MS)
        append(log, b"b")
        log.abandon()
        log = recovered(directory)
        log.flush(now_ms=NOW_MS)
        files.sync_directory(tmp_path)
        log.advance_start(1)
        apply_retention(log, now_ms=NOW_MS)
        flushed = {"recovery_point": log.recovery_point, "start_offset": log.start_offset}
        log.abandon()
        disk.cut()
        log = recovered(directory, **flushed)
    assert 7 in log.producers.states, disk


def test_progress_is_reported_by_segment(tmp_path):
    filled(tmp_path / "events-0").abandon()
    seen = []
    recover(
        place_of(tmp_path / "events-0", segment_bytes=600),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(done, 5) for done in range(5)]
