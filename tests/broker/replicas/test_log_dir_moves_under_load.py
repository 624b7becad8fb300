"""Moves of replicas that are written to all the time, to disks that take their time."""

import asyncio

import pytest

from odradek.broker.replicas import log_dir_move
from odradek.storage.manager.moving import is_moving_away
from tests.broker.replicas.test_log_dir_move import EVENTS, Bench
from tests.support.fetches import append
from tests.support.logs import NOW_MS, records_batch


async def test_a_move_ends_though_much_comes_while_its_copy_is_synced(tmp_path, monkeypatch):
    monkeypatch.setattr(log_dir_move, "SLICE_BYTES", 200)
    bench = Bench(tmp_path)
    carry_out, marks = bench.hosting.disk.carry_out, []

    async def carry_out_and_produce(work):
        await carry_out(work)
        if work.what.startswith("marking"):
            marks.append(work)
            assert len(marks) < 10, "it does not end"
            for _ in range(20):
                append(bench.partition, bytes(100))

    monkeypatch.setattr(bench.hosting.disk, "carry_out", carry_out_and_produce)
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert bench.values() == [bytes(100)] * 20 * len(marks)


async def test_a_target_that_hangs_does_not_hold_up_acknowledgements_for_long(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(log_dir_move, "HELD_MAX_S", 0.05)
    bench = Bench(tmp_path, flush_messages=1)
    carry_out, is_hanging, may_end = bench.hosting.disk.carry_out, asyncio.Event(), asyncio.Event()

    async def carry_out_or_hang(work):
        await carry_out(work)
        if work.what.startswith("marking"):
            if bench.partition.hosted.are_syncs_held:
                is_hanging.set()
                await may_end.wait()
            append(bench.partition, b"v")  # synced at once: the copy is behind
            await asyncio.sleep(0.05)

    monkeypatch.setattr(bench.hosting.disk, "carry_out", carry_out_or_hang)
    await bench.move()
    await is_hanging.wait()
    written = bench.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    await bench.partition.wait_until_acknowledged(written, acks=1, timeout_s=30)
    assert not may_end.is_set()
    monkeypatch.setattr(bench.hosting.disk, "carry_out", carry_out)
    may_end.set()
    await bench.ended()


@pytest.mark.parametrize("is_cancelled_in_it", [False, True])
async def test_a_move_that_is_given_up_leaves_no_mark(tmp_path, monkeypatch, is_cancelled_in_it):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    home, directory = bench.partition.hosted.directory, bench.partition.log.directory
    carry_out, is_marked = bench.hosting.disk.carry_out, asyncio.Event()

    async def carry_out_and_wait(work):
        await carry_out(work)
        if work.what.startswith("marking"):
            if is_cancelled_in_it:  # then it ends as if it had not been done
                bench.partition.hosted.is_marked = False
            is_marked.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(bench.hosting.disk, "carry_out", carry_out_and_wait)
    await bench.move()
    await is_marked.wait()
    assert is_moving_away(directory)
    await bench.move(home)
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert not is_moving_away(directory)


async def test_nor_does_one_whose_target_fails_once_it_is_asked_to_stay(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    home, directory = bench.partition.hosted.directory, bench.partition.log.directory
    carry_out, target = bench.hosting.disk.carry_out, bench.others[0]

    async def carry_out_and_fail(work):
        await carry_out(work)
        if work.what.startswith("marking"):
            target.fail(OSError("broken"), "a test")

    monkeypatch.setattr(bench.hosting.disk, "carry_out", carry_out_and_fail)
    await bench.move()
    await bench.ended()
    assert is_moving_away(directory)
    await bench.move(home)
    assert not is_moving_away(directory)
