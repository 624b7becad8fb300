"""Future logs of moves that were interrupted, or whose directories were offline."""

import asyncio
import shutil
from functools import partial

import pytest

from odradek.broker.replicas import replica_alter_log_dirs_manager
from odradek.broker.replicas.delayed_delete_records import DelayedDeleteRecords
from odradek.broker.replicas.replica_alter_log_dirs_manager import ReplicaAlterLogDirsTask
from odradek.protocol.errors import KafkaStorageError
from odradek.protocol.types import Uuid
from odradek.storage import files
from odradek.storage.manager.disk_task import execute
from odradek.storage.settings import TopicSettings
from tests.broker.replicas.test_replica_alter_log_dirs_manager import (
    EVENTS,
    OTHER,
    Bench,
    directory_names,
)
from tests.support.fetches import append
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.log_managers import carry_all, copied
from tests.support.logs import NOW_MS

WAIT_S = 10


def delayed_delete(bench, offset):
    return DelayedDeleteRecords(
        bench.partition,
        offset,
        is_alive=lambda broker: True,
        future_log=partial(bench.moves.find_future, EVENTS),
    )


async def test_failed_target_does_not_prevent_topic_deletion(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    for _ in range(30):
        append(bench.partition, b"a")
    target, replicas = bench.others[0], bench.hosting.replicas
    bench.after_chunks(monkeypatch, 3, lambda: target.mark_offline(OSError("broken"), "a test"))
    await bench.move(target)
    await bench.ended()
    assert bench.hosting.logs.find_future(EVENTS) is None
    replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
    assert await replicas.delete([EVENTS]) == {}
    assert bench.hosting.logs.find(EVENTS) is None


async def test_future_log_of_a_deleted_topic_is_not_used_for_a_new_topic(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"old")
    target = bench.others[0]
    stale = copied(bench.hosting.logs, EVENTS, target)
    append(bench.partition, b"new")
    bench.partition.hosted_log.topic_id, stale.topic_id = (
        Uuid(bytes([1] * 16)),
        Uuid(bytes([2] * 16)),
    )
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert bench.partition.hosted_log.directory is not target
    assert bench.hosting.logs.find_future(EVENTS) is None
    (removed,) = directory_names(target.path)
    assert removed.endswith("-delete")


async def test_future_log_that_missed_a_truncation_is_truncated_on_resume(tmp_path):
    bench = Bench(tmp_path)
    for number in range(10):
        append(bench.partition, b"%d" % number)
    target = bench.others[0]
    copied(bench.hosting.logs, EVENTS, target)
    bench.truncate_to(5)
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 30


async def test_log_reopened_and_truncated_during_the_copy_is_compared_again(tmp_path, monkeypatch):
    monkeypatch.setattr(replica_alter_log_dirs_manager, "COPY_CHUNK_BYTES", 1)
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    hosted, logs = bench.partition.hosted_log, bench.hosting.logs
    execute(logs.truncate(hosted, 25, now_ms=NOW_MS))  # a truncation that the copy need not follow
    bench.partition.on_truncated()
    run_in, reads = bench.hosting.disk.run_in, iter(range(1, 10_000))

    def repair_truncate_and_run(directory, call, *arguments):
        if call is files.read_at and next(reads) == 10:
            hosted.needs_recovery = True
            carry_all(logs.repair_tasks(now_ms=NOW_MS))
            bench.truncate_to(5)
        return run_in(directory, call, *arguments)

    monkeypatch.setattr(bench.hosting.disk, "run_in", repair_truncate_and_run)
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 30


async def test_copy_restarts_when_a_power_cut_undid_records(tmp_path):
    bench = Bench(tmp_path)
    for number in range(10):
        append(bench.partition, b"%d" % number)
    target = bench.others[0]
    copied(bench.hosting.logs, EVENTS, target)
    # The leader and its epoch are the same.
    execute(bench.hosting.logs.truncate(bench.partition.hosted_log, 5, now_ms=NOW_MS))
    bench.partition.on_truncated()
    for _ in range(10):
        append(bench.partition, b"new")
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 10


async def test_copy_of_a_compacted_log_restarts(tmp_path, monkeypatch):
    """Its records may have been deleted by a tombstone that compaction has since removed."""
    bench = Bench(tmp_path)
    for number in range(10):
        append(bench.partition, b"%d" % number)
    target, logs = bench.others[0], bench.hosting.logs
    copy, truncated = copied(logs, EVENTS, target), []
    bench.partition.hosted_log.log.configure(TopicSettings(cleanup_policy=("compact",)))
    truncate_fully = logs.truncate_fully_and_start_at

    def record_truncation(hosted, *offsets, **keywords):
        assert hosted.log.segments.is_single_empty_segment, "it would sleep on the loop"
        truncated.append(hosted)
        return truncate_fully(hosted, *offsets, **keywords)

    monkeypatch.setattr(logs, "truncate_fully_and_start_at", record_truncation)
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert truncated == [copy]
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [b"%d" % number for number in range(10)]


async def test_leader_epoch_without_records_is_moved_too(tmp_path):
    bench = Bench(tmp_path)
    before = bench.partition.log.leader_epoch_cache.entries
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert before
    assert bench.partition.log.leader_epoch_cache.entries == before


def hold_completion(bench, monkeypatch):
    """Delay the completion of moves until the returned event is set."""
    execute_task, may_end = bench.hosting.disk.execute, asyncio.Event()

    async def execute_later(work):
        if work.description.startswith("marking"):
            await may_end.wait()
        await execute_task(work)

    monkeypatch.setattr(bench.hosting.disk, "execute", execute_later)
    return may_end


async def test_delete_records_of_copied_records_does_not_wait(tmp_path, monkeypatch):
    bench, is_copied = Bench(tmp_path), asyncio.Event()
    for number in range(5):
        append(bench.partition, b"%d" % number)
    may_end = hold_completion(bench, monkeypatch)
    bench.after_chunks(monkeypatch, 5, is_copied.set)
    await bench.move()
    await is_copied.wait()
    assert delayed_delete(bench, 2).is_done()
    may_end.set()
    await bench.ended()
    assert bench.values() == [b"2", b"3", b"4"]


async def test_delete_records_beyond_the_copy_waits_until_the_copy_follows(tmp_path, monkeypatch):
    monkeypatch.setattr(replica_alter_log_dirs_manager, "COPY_CHUNK_BYTES", 1)
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    may_end, run_in = hold_completion(bench, monkeypatch), bench.hosting.disk.run_in
    waiting = asyncio.get_running_loop().create_future()

    def run_and_delete(directory, call, *arguments):
        """Delete while the third chunk is read."""
        is_third = call is files.read_at and future.log.log_end_offset == 2
        if is_third and not waiting.done():
            deletion = delayed_delete(bench, 25)
            assert not deletion.is_done()
            waiting.set_result(bench.hosting.background.start(deletion.wait_until_done(WAIT_S)))
        return run_in(directory, call, *arguments)

    monkeypatch.setattr(bench.hosting.disk, "run_in", run_and_delete)
    await bench.move()
    future = bench.hosting.logs.find_future(EVENTS)
    await (await waiting)
    assert bench.moves.is_moving(EVENTS)
    may_end.set()
    await bench.ended()
    assert bench.values() == [b"%d" % number for number in range(25, 30)]


async def test_delete_records_does_not_wait_for_an_aborted_copy(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    for _ in range(3):
        append(bench.partition, b"a")
    may_fail = asyncio.Event()

    async def fail(move):
        await may_fail.wait()
        raise KafkaStorageError("not now")

    monkeypatch.setattr(ReplicaAlterLogDirsTask, "_catch_up", fail)
    await bench.move()
    deletion = delayed_delete(bench, 2)
    assert not deletion.is_done()
    asyncio.get_running_loop().call_soon(may_fail.set)
    await deletion.wait_until_done(WAIT_S)


async def test_copy_that_starts_after_its_log_restarts(tmp_path):
    bench = Bench(tmp_path)
    for number in range(10):
        append(bench.partition, b"%d" % number)
    target = bench.others[0]
    copy = copied(bench.hosting.logs, EVENTS, target).log
    copy.update_high_watermark(10)
    copy.maybe_increment_log_start_offset(7)
    bench.truncate_to(0)
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [b"new"] * 30


async def test_future_log_of_a_deleted_topic_is_removed_when_retention_ends(tmp_path):
    bench = Bench(tmp_path)
    target, cleaner = bench.others[0], bench.hosting.logs.cleaner_manager
    stale = copied(bench.hosting.logs, EVENTS, target)
    bench.partition.hosted_log.topic_id, stale.topic_id = (
        Uuid(bytes([1] * 16)),
        Uuid(bytes([2] * 16)),
    )
    cleaner.begin_retention([stale.log])
    bench.moves.resume(EVENTS)
    asyncio.get_running_loop().call_later(0.01, cleaner.end_retention, [stale.log])
    await bench.ended()
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert cleaner.pause(EVENTS)  # nothing else has paused it


async def test_future_log_is_discarded_when_retention_ends(tmp_path):
    bench = Bench(tmp_path, segment_bytes=300)
    for _ in range(20):
        append(bench.partition, b"a")
    source, cleaner = bench.partition.hosted_log.directory, bench.hosting.logs.cleaner_manager
    future = copied(bench.hosting.logs, EVENTS, bench.others[0])
    cleaner.begin_retention([future.log])
    asyncio.get_running_loop().call_later(0.01, cleaner.end_retention, [future.log])
    await bench.move(source)
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert cleaner.states[EVENTS].name == "IDLE"


async def test_move_requested_while_another_completes_is_started(tmp_path, monkeypatch):
    bench = Bench(tmp_path, directories=("one", "two", "three"))
    append(bench.partition, b"a")
    first, second = bench.others
    execute_task, is_swapped, may_end = bench.hosting.disk.execute, asyncio.Event(), asyncio.Event()

    async def execute_later(work):
        if work.description.startswith("syncing the new name"):
            is_swapped.set()
            await may_end.wait()
        await execute_task(work)

    monkeypatch.setattr(bench.hosting.disk, "execute", execute_later)
    await bench.move(first)
    await is_swapped.wait()
    await bench.move(second)
    may_end.set()
    await bench.ended()
    await bench.ended()
    assert bench.partition.hosted_log.directory is second


@pytest.mark.parametrize("leader", [BROKER, OTHER])
async def test_future_log_without_a_current_log_is_kept_if_this_broker_is_to_lead(tmp_path, leader):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    target = bench.others[0]
    copied(bench.hosting.logs, EVENTS, target)
    source = bench.partition.hosted_log.directory.path
    bench.hosting.logs.close_handlers()
    shutil.rmtree(source / "events-0")
    restarted = Hosting(source, target.path)
    state = {"leader": leader, "replicas": (BROKER, OTHER), "epoch": 1, "is_new": False}
    if leader == BROKER:
        with pytest.raises(KafkaStorageError, match="which has no current log"):
            restarted.lead(**state)
        assert restarted.logs.find_future(EVENTS).log.log_end_offset == 1
    else:
        assert restarted.lead(**state).hosted_log.directory.path == source
