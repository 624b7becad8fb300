"""AlterReplicaLogDirs requests that are repeated, concurrent or late."""

import asyncio
import re
import threading
from types import SimpleNamespace

from odradek.broker.replicas import replica_alter_log_dirs_manager
from odradek.broker.replicas.replica_alter_log_dirs_manager import ReplicaAlterLogDirsTask
from odradek.protocol.errors import KafkaStorageError, NotLeaderOrFollower, UnknownTopicOrPartition
from odradek.storage import files
from tests.broker.replicas.test_replica_alter_log_dirs_manager import EVENTS, Bench, directory_names
from tests.support.fetches import append

WAIT_S = 30


async def test_move_to_the_current_directory_does_nothing(tmp_path):
    bench = Bench(tmp_path)
    await bench.move(bench.partition.hosted_log.directory)
    assert not bench.moves.is_moving(EVENTS)
    assert bench.hosting.logs.find_future(EVENTS) is None


async def test_repeated_request_continues_the_move(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    target = await bench.move()
    future = bench.hosting.logs.find_future(EVENTS)
    await bench.move(target)
    assert bench.hosting.logs.find_future(EVENTS) is future
    await bench.ended()


async def test_repeated_request_resumes_an_aborted_move(tmp_path, monkeypatch, caplog):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")

    def fail(move):
        raise KafkaStorageError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(ReplicaAlterLogDirsTask, "_next_chunk", fail)
        target = await bench.move()
        await bench.ended()
    assert re.search(r"Aborted moving partition \S+ to \S+: not now", caplog.text)
    assert bench.partition.hosted_log.directory is not target
    await bench.move(target)
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [b"a"]


async def test_move_to_another_directory_replaces_the_move_before(tmp_path):
    bench = Bench(tmp_path, directories=("one", "two", "three"))
    append(bench.partition, b"a")
    first, second = bench.others
    await bench.move(first)
    await bench.move(second)
    await bench.ended()
    assert bench.partition.hosted_log.directory is second
    assert not any(name.endswith("-future") for name in directory_names(first.path))
    assert bench.values() == [b"a"]


async def test_last_of_several_concurrent_requests_wins(tmp_path):
    bench = Bench(tmp_path, directories=("one", "two", "three", "four"))
    append(bench.partition, b"a")
    first, second, third = bench.others
    await bench.move(first)
    await asyncio.gather(bench.move(second), bench.move(third))
    await bench.ended()
    assert bench.partition.hosted_log.directory is third
    assert bench.values() == [b"a"]


async def test_move_back_to_the_current_directory_discards_the_copy(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    source = bench.partition.hosted_log.directory
    await bench.move()
    await bench.move(source)
    assert not bench.moves.is_moving(EVENTS)
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert bench.partition.hosted_log.directory is source


async def test_topic_deletion_during_a_move_deletes_the_future_log(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    bench = Bench(tmp_path)
    for _ in range(30):
        append(bench.partition, b"a")
    replicas, copied = bench.hosting.replicas, asyncio.Event()
    bench.after_chunks(monkeypatch, 3, copied.set)
    await bench.move()
    await copied.wait()
    replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
    assert await replicas.delete([EVENTS]) == {}
    await bench.ended()
    assert bench.hosting.logs.find(EVENTS) is None
    assert bench.hosting.logs.find_future(EVENTS) is None
    (logged,) = [each for each in caplog.records if "Aborted moving" in each.getMessage()]
    assert logged.levelname == "INFO"
    assert "failed" not in caplog.text


async def test_topic_deleted_while_one_move_replaces_another_is_not_moved(tmp_path):
    bench = Bench(tmp_path, directories=("one", "two", "three"))
    append(bench.partition, b"a")
    first, second = bench.others
    await bench.move(first)

    async def delete():
        bench.hosting.replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
        return await bench.hosting.replicas.delete([EVENTS])

    error, failures = await asyncio.gather(bench.move(second), delete(), return_exceptions=True)
    assert isinstance(error, NotLeaderOrFollower | UnknownTopicOrPartition)
    assert failures == {}
    assert bench.hosting.logs.find(EVENTS) is None
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert directory_names(second.path) == []


async def test_hanging_disk_does_not_delay_moves_of_other_partitions(tmp_path, monkeypatch):
    bench = Bench(tmp_path, directories=("one", "two", "three"))
    other = bench.hosting.lead(partition=1)
    first, second = bench.others
    await bench.move(first)
    execute_all = bench.hosting.disk.execute_all
    hangs, goes_on = asyncio.Event(), asyncio.Event()

    async def execute_later(tasks):
        hangs.set()
        await goes_on.wait()
        await execute_all(tasks)

    monkeypatch.setattr(bench.hosting.disk, "execute_all", execute_later)
    replacing = bench.hosting.background.start(bench.move(second), "a request")
    await hangs.wait()
    elsewhere = next(each for each in (first, second) if each is not other.hosted_log.directory)
    async with asyncio.timeout(WAIT_S):
        await bench.moves.move(other.topic_partition, str(elsewhere.path))
    assert not replacing.done()
    goes_on.set()
    await replacing


async def test_moves_off_a_hanging_disk_do_not_use_threads_of_other_disks(tmp_path, monkeypatch):
    bench, hangs, goes_on = Bench(tmp_path), threading.Event(), threading.Event()
    others = [bench.hosting.lead(partition=number) for number in range(1, 5)]
    source, target = bench.partition.hosted_log.directory, bench.others[0]
    moved = [each for each in (bench.partition, *others) if each.hosted_log.directory is source]
    assert len(moved) == 3  # more than there are threads

    def read_at(*arguments):
        hangs.set()
        assert goes_on.wait(WAIT_S)
        return files.read_at(*arguments)

    monkeypatch.setattr(replica_alter_log_dirs_manager, "files", SimpleNamespace(read_at=read_at))
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
    assert {each.hosted_log.directory for each in moved} == {target}
