"""Requests to move a replica that come again, or in between, or too late."""

import asyncio
import threading
from types import SimpleNamespace

from odradek.broker.replicas import log_dir_move
from odradek.broker.replicas.log_dir_move import LogDirMove
from odradek.protocol.errors import KafkaStorageError, NotLeader, UnknownTopicOrPartition
from odradek.storage import files
from tests.broker.replicas.test_log_dir_move import EVENTS, Bench, directories_of
from tests.support.fetches import append

WAIT_S = 30


async def test_a_move_to_where_it_is_already_does_nothing(tmp_path):
    bench = Bench(tmp_path)
    await bench.move(bench.partition.hosted.directory)
    assert not bench.moves.is_moving(EVENTS)
    assert bench.hosting.logs.find_future(EVENTS) is None


async def test_the_same_move_again_goes_on(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    target = await bench.move()
    future = bench.hosting.logs.find_future(EVENTS)
    await bench.move(target)
    assert bench.hosting.logs.find_future(EVENTS) is future
    await bench.ended()


async def test_a_move_that_was_broken_off_goes_on_when_it_is_asked_for_again(
    tmp_path, monkeypatch, caplog
):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")

    def refuse(move):
        raise KafkaStorageError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(LogDirMove, "_next", refuse)
        target = await bench.move()
        await bench.ended()
    assert "was broken off: not now" in caplog.text
    assert bench.partition.hosted.directory is not target
    await bench.move(target)
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert bench.values() == [b"a"]


async def test_a_move_elsewhere_gives_up_the_one_before(tmp_path):
    bench = Bench(tmp_path, directories=("one", "two", "three"))
    append(bench.partition, b"a")
    first, second = bench.others
    await bench.move(first)
    await bench.move(second)
    await bench.ended()
    assert bench.partition.hosted.directory is second
    assert not any(name.endswith("-future") for name in directories_of(first.path))
    assert bench.values() == [b"a"]


async def test_of_several_requests_at_once_the_last_counts(tmp_path):
    bench = Bench(tmp_path, directories=("one", "two", "three", "four"))
    append(bench.partition, b"a")
    first, second, third = bench.others
    await bench.move(first)
    await asyncio.gather(bench.move(second), bench.move(third))
    await bench.ended()
    assert bench.partition.hosted.directory is third
    assert bench.values() == [b"a"]


async def test_a_move_back_home_gives_up_the_copy(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    home = bench.partition.hosted.directory
    await bench.move()
    await bench.move(home)
    assert not bench.moves.is_moving(EVENTS)
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert bench.partition.hosted.directory is home


async def test_a_topic_that_is_deleted_meanwhile_takes_its_copy_with_it(
    tmp_path, monkeypatch, caplog
):
    caplog.set_level("INFO")
    bench = Bench(tmp_path)
    for _ in range(30):
        append(bench.partition, b"a")
    replicas, copied = bench.hosting.replicas, asyncio.Event()
    bench.after_slices(monkeypatch, 3, copied.set)
    await bench.move()
    await copied.wait()
    replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
    assert await replicas.delete([EVENTS]) == {}
    await bench.ended()
    assert bench.hosting.logs.find(EVENTS) is None
    assert bench.hosting.logs.find_future(EVENTS) is None
    (told,) = [each for each in caplog.records if "was broken off" in each.getMessage()]
    assert told.levelname == "INFO"
    assert "failed" not in caplog.text


async def test_a_topic_that_is_deleted_while_one_move_gives_way_to_another_is_not_moved(tmp_path):
    bench = Bench(tmp_path, directories=("one", "two", "three"))
    append(bench.partition, b"a")
    first, second = bench.others
    await bench.move(first)

    async def delete():
        bench.hosting.replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
        return await bench.hosting.replicas.delete([EVENTS])

    refusal, failures = await asyncio.gather(bench.move(second), delete(), return_exceptions=True)
    assert isinstance(refusal, NotLeader | UnknownTopicOrPartition)
    assert failures == {}
    assert bench.hosting.logs.find(EVENTS) is None
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert directories_of(second.path) == []


async def test_a_disk_that_hangs_holds_up_no_move_of_others(tmp_path, monkeypatch):
    bench = Bench(tmp_path, directories=("one", "two", "three"))
    other = bench.hosting.lead(partition=1)
    first, second = bench.others
    await bench.move(first)
    carry_out_all = bench.hosting.disk.carry_out_all
    hangs, goes_on = asyncio.Event(), asyncio.Event()

    async def carry_out_later(works):
        hangs.set()
        await goes_on.wait()
        await carry_out_all(works)

    monkeypatch.setattr(bench.hosting.disk, "carry_out_all", carry_out_later)
    giving_up = bench.hosting.background.start(bench.move(second), "a request")
    await hangs.wait()
    elsewhere = next(each for each in (first, second) if each is not other.hosted.directory)
    async with asyncio.timeout(WAIT_S):
        await bench.moves.move(other.topic_partition, str(elsewhere.path))
    assert not giving_up.done()
    goes_on.set()
    await giving_up


async def test_moves_off_a_disk_that_hangs_take_nobody_elses_threads(tmp_path, monkeypatch):
    bench, hangs, goes_on = Bench(tmp_path), threading.Event(), threading.Event()
    others = [bench.hosting.lead(partition=number) for number in range(1, 5)]
    source, target = bench.partition.hosted.directory, bench.others[0]
    moved = [each for each in (bench.partition, *others) if each.hosted.directory is source]
    assert len(moved) == 3  # more than there are threads

    def read_at(*what):
        hangs.set()
        assert goes_on.wait(WAIT_S)
        return files.read_at(*what)

    monkeypatch.setattr(log_dir_move, "files", SimpleNamespace(read_at=read_at))
    for partition in moved:
        append(partition, b"a")
        await bench.moves.move(partition.topic_partition, str(target.path))
    tasks = list(bench.moves._tasks.values())
    try:
        async with asyncio.timeout(WAIT_S / 2):
            assert await asyncio.to_thread(hangs.wait, WAIT_S)
            assert await bench.hosting.disk.run(hangs.is_set)
            assert await bench.hosting.disk.run_in(target, hangs.is_set)
    finally:
        goes_on.set()
    await asyncio.wait(tasks)
    assert {each.hosted.directory for each in moved} == {target}
