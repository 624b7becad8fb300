"""Log dir moves of replicas under constant writes, to slow disks."""

import asyncio

import pytest

from odradek.broker.replicas import replica_alter_log_dirs_manager
from odradek.storage.manager.log_dir_move import has_move_marker
from tests.broker.replicas.test_replica_alter_log_dirs_manager import EVENTS, Bench
from tests.support.fetches import append
from tests.support.logs import NOW_MS, records_batch


async def test_move_completes_when_many_records_arrive_while_its_copy_is_flushed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(replica_alter_log_dirs_manager, "COPY_CHUNK_BYTES", 200)
    bench = Bench(tmp_path)
    execute, marks = bench.hosting.disk.execute, []

    async def execute_and_produce(work):
        await execute(work)
        if work.description.startswith("marking"):
            marks.append(work)
            assert len(marks) < 10, "it does not end"
            for _ in range(20):
                append(bench.partition, bytes(100))

    monkeypatch.setattr(bench.hosting.disk, "execute", execute_and_produce)
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [bytes(100)] * 20 * len(marks)


async def test_hanging_target_delays_acknowledgements_only_briefly(tmp_path, monkeypatch):
    monkeypatch.setattr(replica_alter_log_dirs_manager, "FLUSH_HOLD_MAX_S", 0.05)
    bench = Bench(tmp_path, flush_messages=1)
    execute, is_hanging, may_end = bench.hosting.disk.execute, asyncio.Event(), asyncio.Event()

    async def execute_or_hang(work):
        await execute(work)
        if work.description.startswith("marking"):
            if bench.partition.hosted_log.is_flush_paused:
                is_hanging.set()
                await may_end.wait()
            append(bench.partition, b"v")  # flushed at once: the copy is behind
            await asyncio.sleep(0.05)

    monkeypatch.setattr(bench.hosting.disk, "execute", execute_or_hang)
    await bench.move()
    await is_hanging.wait()
    append_info = bench.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    await bench.partition.wait_until_acknowledged(append_info, acks=1, timeout_s=30)
    assert not may_end.is_set()
    monkeypatch.setattr(bench.hosting.disk, "execute", execute)
    may_end.set()
    await bench.ended()


@pytest.mark.parametrize("is_cancelled_while_marking", [False, True])
async def test_cancelled_move_leaves_no_marker(tmp_path, monkeypatch, is_cancelled_while_marking):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    source, directory = bench.partition.hosted_log.directory, bench.partition.log.directory
    execute, is_marked = bench.hosting.disk.execute, asyncio.Event()

    async def execute_and_wait(work):
        await execute(work)
        if work.description.startswith("marking"):
            if is_cancelled_while_marking:  # then it ends as if it had not been done
                bench.partition.hosted_log.has_move_marker = False
            is_marked.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(bench.hosting.disk, "execute", execute_and_wait)
    await bench.move()
    await is_marked.wait()
    assert has_move_marker(directory)
    await bench.move(source)
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert not has_move_marker(directory)


async def test_move_with_failed_target_leaves_no_marker_once_it_is_cancelled(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    source, directory = bench.partition.hosted_log.directory, bench.partition.log.directory
    execute, target = bench.hosting.disk.execute, bench.others[0]

    async def execute_and_fail(work):
        await execute(work)
        if work.description.startswith("marking"):
            target.mark_offline(OSError("broken"), "a test")

    monkeypatch.setattr(bench.hosting.disk, "execute", execute_and_fail)
    await bench.move()
    await bench.ended()
    assert has_move_marker(directory)
    await bench.move(source)
    assert not has_move_marker(directory)
