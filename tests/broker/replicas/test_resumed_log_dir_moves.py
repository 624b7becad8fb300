"""Copies of replicas whose moves were broken off, or whose directories were out of reach."""

import asyncio
import shutil
from functools import partial

import pytest

from odradek.broker.replicas import log_dir_move
from odradek.broker.replicas.delete_records import RecordDeletion
from odradek.broker.replicas.log_dir_move import LogDirMove
from odradek.protocol.errors import KafkaStorageError
from odradek.protocol.types import Uuid
from odradek.storage import files
from odradek.storage.manager.disk_work import carry_out
from odradek.storage.settings import TopicSettings
from tests.broker.replicas.test_log_dir_move import EVENTS, OTHER, Bench, directories_of
from tests.support.fetches import append
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.log_managers import carry_all, copied
from tests.support.logs import NOW_MS

WAIT_S = 10


def deletion_of(bench, offset):
    return RecordDeletion(
        bench.partition,
        offset,
        is_alive=lambda broker: True,
        copy=partial(bench.moves.find_future, EVENTS),
    )


async def test_a_target_that_fails_does_not_keep_the_topic_from_being_deleted(
    tmp_path, monkeypatch
):
    bench = Bench(tmp_path)
    for _ in range(30):
        append(bench.partition, b"a")
    target, replicas = bench.others[0], bench.hosting.replicas
    bench.after_slices(monkeypatch, 3, lambda: target.fail(OSError("broken"), "a test"))
    await bench.move(target)
    await bench.ended()
    assert bench.hosting.logs.find_future(EVENTS) is None
    replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
    assert await replicas.delete([EVENTS]) == {}
    assert bench.hosting.logs.find(EVENTS) is None


async def test_a_copy_of_a_deleted_topic_does_not_become_part_of_the_next(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"old")
    target = bench.others[0]
    stale = copied(bench.hosting.logs, EVENTS, target)
    append(bench.partition, b"new")
    bench.partition.hosted.topic_id, stale.topic_id = Uuid(bytes([1] * 16)), Uuid(bytes([2] * 16))
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert bench.partition.hosted.directory is not target
    assert bench.hosting.logs.find_future(EVENTS) is None
    (removed,) = directories_of(target.path)
    assert removed.endswith("-delete")


async def test_a_copy_that_missed_a_truncation_is_cut_when_it_goes_on(tmp_path):
    bench = Bench(tmp_path)
    for number in range(10):
        append(bench.partition, b"%d" % number)
    target = bench.others[0]
    copied(bench.hosting.logs, EVENTS, target)
    bench.cut_to(5)
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 30


async def test_a_log_that_is_opened_again_and_cut_meanwhile_is_compared_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(log_dir_move, "SLICE_BYTES", 1)
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    hosted, logs = bench.partition.hosted, bench.hosting.logs
    carry_out(logs.truncate(hosted, 25, now_ms=NOW_MS))  # one cut that the copy need not follow
    bench.partition.cut()
    run_in, reads = bench.hosting.disk.run_in, iter(range(1, 10_000))

    def mend_cut_and_run(directory, call, *arguments):
        if call is files.read_at and next(reads) == 10:
            hosted.is_in_doubt = True
            carry_all(logs.mendings(now_ms=NOW_MS))
            bench.cut_to(5)
        return run_in(directory, call, *arguments)

    monkeypatch.setattr(bench.hosting.disk, "run_in", mend_cut_and_run)
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 30


async def test_a_copy_of_what_a_power_cut_has_undone_begins_anew(tmp_path):
    bench = Bench(tmp_path)
    for number in range(10):
        append(bench.partition, b"%d" % number)
    target = bench.others[0]
    copied(bench.hosting.logs, EVENTS, target)
    # The leader is the same, in the same epoch.
    carry_out(bench.hosting.logs.truncate(bench.partition.hosted, 5, now_ms=NOW_MS))
    bench.partition.cut()
    for _ in range(10):
        append(bench.partition, b"new")
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 10


async def test_a_copy_of_a_compacted_log_begins_anew(tmp_path, monkeypatch):
    """What it has may have been deleted by a tombstone that is gone by now."""
    bench = Bench(tmp_path)
    for number in range(10):
        append(bench.partition, b"%d" % number)
    target, logs = bench.others[0], bench.hosting.logs
    copy, emptied = copied(logs, EVENTS, target), []
    bench.partition.hosted.log.configure(TopicSettings(cleanup_policy=("compact",)))
    truncate_fully = logs.truncate_fully

    def noted(hosted, *where, **when):
        assert hosted.log.segments.is_bare, "it would sleep on the loop"
        emptied.append(hosted)
        return truncate_fully(hosted, *where, **when)

    monkeypatch.setattr(logs, "truncate_fully", noted)
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert emptied == [copy]
    assert bench.partition.hosted.directory is target
    assert bench.values() == [b"%d" % number for number in range(10)]


async def test_an_epoch_without_records_moves_too(tmp_path):
    bench = Bench(tmp_path)
    before = bench.partition.log.epochs.entries
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert before
    assert bench.partition.log.epochs.entries == before


def hold_the_end_back(bench, monkeypatch):
    """Moves come to their ends when the event is set."""
    carry_out, may_end = bench.hosting.disk.carry_out, asyncio.Event()

    async def carry_out_later(work):
        if work.what.startswith("marking"):
            await may_end.wait()
        await carry_out(work)

    monkeypatch.setattr(bench.hosting.disk, "carry_out", carry_out_later)
    return may_end


async def test_whoever_deletes_what_is_copied_already_does_not_wait(tmp_path, monkeypatch):
    bench, is_copied = Bench(tmp_path), asyncio.Event()
    for number in range(5):
        append(bench.partition, b"%d" % number)
    may_end = hold_the_end_back(bench, monkeypatch)
    bench.after_slices(monkeypatch, 5, is_copied.set)
    await bench.move()
    await is_copied.wait()
    assert deletion_of(bench, 2).is_done()
    may_end.set()
    await bench.ended()
    assert bench.values() == [b"2", b"3", b"4"]


async def test_whoever_deletes_more_waits_for_the_copy_to_follow_and_no_longer(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(log_dir_move, "SLICE_BYTES", 1)
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    may_end, run_in = hold_the_end_back(bench, monkeypatch), bench.hosting.disk.run_in
    waiting = asyncio.get_running_loop().create_future()

    def run_and_delete(directory, call, *arguments):
        """While the third slice is read."""
        is_third = call is files.read_at and future.log.end_offset == 2
        if is_third and not waiting.done():
            deletion = deletion_of(bench, 25)
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


async def test_nobody_waits_for_a_copy_that_was_broken_off(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    for _ in range(3):
        append(bench.partition, b"a")
    may_fail = asyncio.Event()

    async def refuse(move):
        await may_fail.wait()
        raise KafkaStorageError("not now")

    monkeypatch.setattr(LogDirMove, "_catch_up", refuse)
    await bench.move()
    deletion = deletion_of(bench, 2)
    assert not deletion.is_done()
    asyncio.get_running_loop().call_soon(may_fail.set)
    await deletion.wait_until_done(WAIT_S)


async def test_a_copy_that_begins_later_than_its_log_begins_anew(tmp_path):
    bench = Bench(tmp_path)
    for number in range(10):
        append(bench.partition, b"%d" % number)
    target = bench.others[0]
    copy = copied(bench.hosting.logs, EVENTS, target).log
    copy.advance_high_watermark(10)
    copy.advance_start(7)
    bench.cut_to(0)
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert bench.values() == [b"new"] * 30


async def test_a_copy_of_a_deleted_topic_is_removed_when_retention_is_done_with_it(tmp_path):
    bench = Bench(tmp_path)
    target, cleaner = bench.others[0], bench.hosting.logs.cleaner
    stale = copied(bench.hosting.logs, EVENTS, target)
    bench.partition.hosted.topic_id, stale.topic_id = Uuid(bytes([1] * 16)), Uuid(bytes([2] * 16))
    cleaner.begin_retention([stale.log])
    bench.moves.resume(EVENTS)
    asyncio.get_running_loop().call_later(0.01, cleaner.end_retention, [stale.log])
    await bench.ended()
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert cleaner.pause(EVENTS)  # nobody else does


async def test_a_copy_is_given_up_when_retention_is_done_with_it(tmp_path):
    bench = Bench(tmp_path, segment_bytes=300)
    for _ in range(20):
        append(bench.partition, b"a")
    home, cleaner = bench.partition.hosted.directory, bench.hosting.logs.cleaner
    left = copied(bench.hosting.logs, EVENTS, bench.others[0])
    cleaner.begin_retention([left.log])
    asyncio.get_running_loop().call_later(0.01, cleaner.end_retention, [left.log])
    await bench.move(home)
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert cleaner.states[EVENTS].name == "IDLE"


async def test_a_move_that_is_asked_for_while_another_ends_is_begun(tmp_path, monkeypatch):
    bench = Bench(tmp_path, directories=("one", "two", "three"))
    append(bench.partition, b"a")
    first, second = bench.others
    carry_out, is_swapped, may_end = bench.hosting.disk.carry_out, asyncio.Event(), asyncio.Event()

    async def carry_out_later(work):
        if work.what.startswith("naming"):
            is_swapped.set()
            await may_end.wait()
        await carry_out(work)

    monkeypatch.setattr(bench.hosting.disk, "carry_out", carry_out_later)
    await bench.move(first)
    await is_swapped.wait()
    await bench.move(second)
    may_end.set()
    await bench.ended()
    await bench.ended()
    assert bench.partition.hosted.directory is second


@pytest.mark.parametrize("leader", [BROKER, OTHER])
async def test_a_copy_whose_log_is_nowhere_may_be_all_that_is_left_of_who_is_to_lead(
    tmp_path, leader
):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    target = bench.others[0]
    copied(bench.hosting.logs, EVENTS, target)
    source = bench.partition.hosted.directory.path
    bench.hosting.logs.abandon()
    shutil.rmtree(source / "events-0")
    again = Hosting(source, target.path)
    told = {"leader": leader, "replicas": (BROKER, OTHER), "epoch": 1, "is_new": False}
    if leader == BROKER:
        with pytest.raises(KafkaStorageError, match="is nowhere"):
            again.lead(**told)
        assert again.logs.find_future(EVENTS).log.end_offset == 1
    else:
        assert again.lead(**told).hosted.directory.path == source
