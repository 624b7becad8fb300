"""Periodic maintenance of the logs: flush, checkpoints, retention, compaction."""

import asyncio
from types import SimpleNamespace

import pytest

from odradek.broker.log_maintenance import LogMaintenance
from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.log_cleaning_state import IDLE, PAUSED
from odradek.storage.cleaner.settings import CleanerSettings
from tests.support.damage import flip
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS, records_batch, records_from

EVENTS = TopicPartition("events", 0)
HOUR_MS = 3_600_000
COMPACTED = {"cleanup_policy": ("compact",), "segment_bytes": 1000, "min_cleanable_dirty_ratio": 0}


def maintenance_settings(cleaner):
    return SimpleNamespace(cleaner=cleaner, background_threads=2)


def fill(partition, count=30, *, size=50):
    """Appends the same keys repeatedly, in several segments, and flushes the log."""
    for number in range(count):
        batch = records_batch(b"%02d" % number * size, key=b"key%d" % (number % 3))
        partition.append(batch, acks=1, now_ms=NOW_MS)
    partition.log.flush(now_ms=NOW_MS)


def values_of(partition):
    return [record.value for record in records_from(partition.log)]


async def test_log_is_flushed_after_flush_ms(tmp_path):
    hosting = Hosting(tmp_path, flush_ms=0)
    partition = hosting.lead()
    partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    await hosting.care.flush()
    assert partition.log.recovery_point == 1


async def test_checkpoints_have_the_current_offsets(tmp_path):
    hosting = Hosting(tmp_path, flush_ms=0)
    hosting.lead().append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    await hosting.care.flush()
    await hosting.care.checkpoint()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert "events 0 1" in (tmp_path / name).read_text()


async def test_r12_clock_jump_is_logged_before_retention_deletes_fresh_records(tmp_path, caplog):
    hosting = Hosting(tmp_path, retention_ms=HOUR_MS)
    partition = hosting.lead()
    fill(partition)
    clock = [NOW_MS]
    maintenance = LogMaintenance(
        hosting.logs,
        maintenance_settings(CleanerSettings()),
        disk_executor=hosting.disk,
        cleaner_process=None,
        now_ms=lambda: clock[0],
    )
    clock[0] += 5 * HOUR_MS
    await maintenance.apply_retention()
    assert partition.log.log_start_offset == 0
    assert "System clock jumped forward by 18000 s" in caplog.text
    clock[0] = NOW_MS  # the operator corrects the clock
    await maintenance.apply_retention()
    assert partition.log.log_start_offset == 0
    clock[0] += 5 * HOUR_MS
    await maintenance.apply_retention()
    await maintenance.apply_retention()
    assert partition.log.log_start_offset == partition.log.log_end_offset


async def test_retention_deletes_segments_and_later_their_files(tmp_path):
    hosting = Hosting(tmp_path, segment_bytes=1000, retention_bytes=1000, file_delete_delay_ms=0)
    partition = hosting.lead()
    fill(partition)
    await hosting.care.apply_retention()
    assert partition.log.log_start_offset > 0
    assert list(tmp_path.glob("events-0/*.deleted"))
    await hosting.care.delete_pending_files()
    assert not list(tmp_path.glob("events-0/*.deleted"))


async def test_compaction_keeps_the_last_value_of_every_key(tmp_path):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    fill(partition)
    before = values_of(partition)
    await hosting.care.compact()
    after = values_of(partition)
    assert len(after) < len(before)
    assert after[-3:] == before[-3:]


async def test_damaged_log_is_marked_uncleanable_and_logged(tmp_path, caplog):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    fill(partition)
    first = tmp_path / "events-0" / f"{0:020}.log"
    flip(first, 70)
    await hosting.care.compact()
    assert EVENTS in hosting.logs.cleaner_manager.uncleanable_partitions
    assert "Log cleaning for events-0 failed. Marking its partition as uncleanable" in caplog.text


async def test_paused_partition_is_not_compacted(tmp_path):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    fill(partition)
    before = values_of(partition)
    await hosting.care.abort_and_pause_cleaning(EVENTS)
    await hosting.care.compact()
    assert values_of(partition) == before
    hosting.care.resume_cleaning(EVENTS)
    await hosting.care.compact()
    assert values_of(partition) != before


async def test_pause_aborts_a_compaction_in_progress(tmp_path, caplog):
    caplog.set_level("INFO")
    hosting = Hosting(tmp_path, **COMPACTED | {"segment_bytes": 100_000})
    partition = hosting.lead()
    fill(partition, size=20_000)  # large enough for the I/O rate limit to apply
    slow = CleanerSettings(io_max_bytes_per_second=1.0)
    maintenance = LogMaintenance(
        hosting.logs,
        maintenance_settings(slow),
        disk_executor=hosting.disk,
        cleaner_process=hosting.worker,
        now_ms=lambda: NOW_MS,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(maintenance.compact())
        await asyncio.sleep(0)
        assert hosting.logs.cleaner_manager.is_cleaning_in_progress(partition.log)
        await maintenance.abort_and_pause_cleaning(EVENTS)
    assert hosting.logs.cleaner_manager.states[EVENTS] is PAUSED
    assert "Log cleaning for events-0 aborted" in caplog.text


async def test_pause_ends_if_the_partition_is_deleted_meanwhile(tmp_path):
    hosting = Hosting(tmp_path, **COMPACTED)
    hosting.lead()
    cleaner = hosting.logs.cleaner_manager
    cleaner.states.start(EVENTS)
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        tasks.create_task(hosting.care.abort_and_pause_cleaning(EVENTS))
        await asyncio.sleep(0)
        cleaner.states.end(EVENTS)
        cleaner.remove_partition(EVENTS)  # by another task that had paused it as well
    assert cleaner.states[EVENTS] is IDLE


@pytest.mark.parametrize("other_pauses", [0, 1])
async def test_cancelled_pause_pauses_nothing(tmp_path, other_pauses):
    hosting = Hosting(tmp_path, **COMPACTED)
    hosting.lead()
    cleaner = hosting.logs.cleaner_manager
    cleaner.states.start(EVENTS)
    for _ in range(other_pauses):
        cleaner.pause(EVENTS)
    waiting = asyncio.get_running_loop().create_task(hosting.care.abort_and_pause_cleaning(EVENTS))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    cleaner.states.end(EVENTS)
    assert cleaner.states[EVENTS] is (PAUSED if other_pauses else IDLE)
    for _ in range(other_pauses):
        cleaner.resume(EVENTS)
    assert cleaner.states[EVENTS] is IDLE


async def test_nothing_is_compacted_if_the_cleaner_is_disabled(tmp_path):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    fill(partition)
    before = values_of(partition)
    maintenance = LogMaintenance(
        hosting.logs,
        maintenance_settings(CleanerSettings(enable=False)),
        disk_executor=hosting.disk,
        cleaner_process=hosting.worker,
        now_ms=lambda: NOW_MS,
    )
    await maintenance.compact()
    assert values_of(partition) == before


@pytest.mark.parametrize("age_ms", [0, 86_400_001])
async def test_inactive_producers_expire(tmp_path, age_ms):
    hosting = Hosting(tmp_path)
    partition = hosting.lead()
    batch = records_batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)
    partition.append(batch, acks=1, now_ms=NOW_MS)
    maintenance = LogMaintenance(
        hosting.logs,
        maintenance_settings(CleanerSettings()),
        disk_executor=hosting.disk,
        cleaner_process=hosting.worker,
        now_ms=lambda: NOW_MS + age_ms,
    )
    maintenance.expire_producers()
    assert len(partition.log.producer_state_manager) == (0 if age_ms else 1)
