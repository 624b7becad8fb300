"""What is done to the logs from time to time."""

import asyncio
from types import SimpleNamespace

import pytest

from odradek.broker.log_care import LogCare
from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.cleaner.states import IDLE, PAUSED
from tests.support.damage import flip
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS, records_batch, records_from

EVENTS = TopicPartition("events", 0)
HOUR_MS = 3_600_000
COMPACTED = {"cleanup_policy": ("compact",), "segment_bytes": 1000, "min_cleanable_dirty_ratio": 0}


def care_settings(cleaner):
    return SimpleNamespace(cleaner=cleaner, background_threads=2)


def fill(partition, count=30, *, size=50):
    """Every key again and again, in several segments; all of it synced."""
    for number in range(count):
        batch = records_batch(b"%02d" % number * size, key=b"key%d" % (number % 3))
        partition.append(batch, acks=1, now_ms=NOW_MS)
    partition.log.flush(now_ms=NOW_MS)


def values_of(partition):
    return [record.value for record in records_from(partition.log)]


async def test_what_has_waited_long_enough_is_synced(tmp_path):
    hosting = Hosting(tmp_path, flush_ms=0)
    partition = hosting.lead()
    partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    await hosting.care.flush()
    assert partition.log.recovery_point == 1


async def test_the_checkpoints_say_what_is_known(tmp_path):
    hosting = Hosting(tmp_path, flush_ms=0)
    hosting.lead().append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    await hosting.care.flush()
    await hosting.care.checkpoint()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert "events 0 1" in (tmp_path / name).read_text()


async def test_r12_a_clock_that_jumps_is_told_of_before_fresh_records_are_too_old(tmp_path, caplog):
    hosting = Hosting(tmp_path, retention_ms=HOUR_MS)
    partition = hosting.lead()
    fill(partition)
    clock = [NOW_MS]
    care = LogCare(
        hosting.logs,
        care_settings(CleanerSettings()),
        disk=hosting.disk,
        worker=None,
        now_ms=lambda: clock[0],
    )
    clock[0] += 5 * HOUR_MS
    await care.apply_retention()
    assert partition.log.start_offset == 0
    assert "The clock was set forward by 18000 s" in caplog.text
    clock[0] = NOW_MS  # somebody has seen it
    await care.apply_retention()
    assert partition.log.start_offset == 0
    clock[0] += 5 * HOUR_MS
    await care.apply_retention()
    await care.apply_retention()
    assert partition.log.start_offset == partition.log.end_offset


async def test_what_is_too_old_goes_and_its_files_later(tmp_path):
    hosting = Hosting(tmp_path, segment_bytes=1000, retention_bytes=1000, file_delete_delay_ms=0)
    partition = hosting.lead()
    fill(partition)
    await hosting.care.apply_retention()
    assert partition.log.start_offset > 0
    assert list(tmp_path.glob("events-0/*.deleted"))
    await hosting.care.remove()
    assert not list(tmp_path.glob("events-0/*.deleted"))


async def test_a_compaction_keeps_the_last_value_of_every_key(tmp_path):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    fill(partition)
    before = values_of(partition)
    await hosting.care.compact()
    after = values_of(partition)
    assert len(after) < len(before)
    assert after[-3:] == before[-3:]


async def test_a_damaged_log_is_left_alone_and_named(tmp_path, caplog):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    fill(partition)
    first = tmp_path / "events-0" / f"{0:020}.log"
    flip(first, 70)
    await hosting.care.compact()
    assert EVENTS in hosting.logs.cleaner.uncleanable
    assert "events-0 is damaged, and is not compacted any more" in caplog.text


async def test_nobody_compacts_what_is_held_off(tmp_path):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    fill(partition)
    before = values_of(partition)
    await hosting.care.hold_off(EVENTS)
    await hosting.care.compact()
    assert values_of(partition) == before
    hosting.care.allow(EVENTS)
    await hosting.care.compact()
    assert values_of(partition) != before


async def test_holding_off_stops_a_compaction_that_is_under_way(tmp_path, caplog):
    caplog.set_level("INFO")
    hosting = Hosting(tmp_path, **COMPACTED | {"segment_bytes": 100_000})
    partition = hosting.lead()
    fill(partition, size=20_000)  # enough of it that the rate has to be kept
    slow = CleanerSettings(io_max_bytes_per_second=1.0)
    care = LogCare(
        hosting.logs,
        care_settings(slow),
        disk=hosting.disk,
        worker=hosting.worker,
        now_ms=lambda: NOW_MS,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(care.compact())
        await asyncio.sleep(0)
        assert hosting.logs.cleaner.is_at_work_on(partition.log)
        await care.hold_off(EVENTS)
    assert hosting.logs.cleaner.states[EVENTS] is PAUSED
    assert "Compacting events-0 was stopped" in caplog.text


async def test_holding_off_what_is_deleted_meanwhile_comes_to_an_end(tmp_path):
    hosting = Hosting(tmp_path, **COMPACTED)
    hosting.lead()
    cleaner = hosting.logs.cleaner
    cleaner.states.start(EVENTS)
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        tasks.create_task(hosting.care.hold_off(EVENTS))
        await asyncio.sleep(0)
        cleaner.states.end(EVENTS)
        cleaner.deleted(EVENTS)  # by somebody who held it off as well
    assert cleaner.states[EVENTS] is IDLE


@pytest.mark.parametrize("others", [0, 1])
async def test_who_is_cancelled_while_it_waits_holds_nothing_off(tmp_path, others):
    hosting = Hosting(tmp_path, **COMPACTED)
    hosting.lead()
    cleaner = hosting.logs.cleaner
    cleaner.states.start(EVENTS)
    for _ in range(others):
        cleaner.pause(EVENTS)
    waiting = asyncio.get_running_loop().create_task(hosting.care.hold_off(EVENTS))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    cleaner.states.end(EVENTS)
    assert cleaner.states[EVENTS] is (PAUSED if others else IDLE)
    for _ in range(others):
        cleaner.resume(EVENTS)
    assert cleaner.states[EVENTS] is IDLE


async def test_nothing_is_compacted_if_that_is_switched_off(tmp_path):
    hosting = Hosting(tmp_path, **COMPACTED)
    partition = hosting.lead()
    fill(partition)
    before = values_of(partition)
    care = LogCare(
        hosting.logs,
        care_settings(CleanerSettings(enable=False)),
        disk=hosting.disk,
        worker=hosting.worker,
        now_ms=lambda: NOW_MS,
    )
    await care.compact()
    assert values_of(partition) == before


@pytest.mark.parametrize("age_ms", [0, 86_400_001])
async def test_producers_that_have_been_silent_for_long_are_forgotten(tmp_path, age_ms):
    hosting = Hosting(tmp_path)
    partition = hosting.lead()
    batch = records_batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)
    partition.append(batch, acks=1, now_ms=NOW_MS)
    care = LogCare(
        hosting.logs,
        care_settings(CleanerSettings()),
        disk=hosting.disk,
        worker=hosting.worker,
        now_ms=lambda: NOW_MS + age_ms,
    )
    care.expire_producers()
    assert len(partition.log.producers) == (0 if age_ms else 1)
