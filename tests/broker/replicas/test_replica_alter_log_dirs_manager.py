"""Moving replicas to other log directories while clients use them."""

import asyncio
import errno

import pytest

from odradek.broker.replicas import replica_alter_log_dirs_manager
from odradek.broker.replicas.fetch_watcher import WatcherEvent
from odradek.broker.replicas.replica_alter_log_dirs_manager import (
    ReplicaAlterLogDirsManager,
    ReplicaAlterLogDirsTask,
)
from odradek.protocol.errors import (
    InvalidTopic,
    KafkaStorageError,
    LogDirNotFound,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.manager.disk_task import execute
from odradek.storage.unified_log import UnifiedLog
from tests.support.fetches import append
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.logs import NOW_MS, records_batch, records_from

OTHER = 2
EVENTS = TopicPartition("events", 0)


class Bench:
    """Two log directories and a partition in one of them."""

    def __init__(self, tmp_path, *, directories=("one", "two"), **settings):
        self.hosting = Hosting(*(tmp_path / name for name in directories), **settings)
        self.partition = self.hosting.lead()
        self.moves = ReplicaAlterLogDirsManager(
            self.hosting.replicas,
            self.hosting.logs,
            log_maintenance=self.hosting.care,
            disk_executor=self.hosting.disk,
            start_task=self.hosting.background.start,
            now_ms=lambda: NOW_MS,
        )

    @property
    def others(self):
        """The directories that do not hold the partition."""
        current = self.partition.hosted_log.directory
        return [each for each in self.hosting.logs.directories if each is not current]

    async def move(self, target=None):
        target = target or self.others[0]
        await self.moves.move(EVENTS, str(target.path))
        return target

    async def ended(self):
        if task := self.moves._tasks.get(EVENTS):
            await asyncio.wait([task])

    def truncate_to(self, offset, new=30):
        """Truncate as a follower does, then lead and append other records."""
        self.hosting.lead(leader=OTHER, replicas=(OTHER, BROKER), epoch=1)
        execute(self.hosting.logs.truncate(self.partition.hosted_log, offset, now_ms=NOW_MS))
        self.hosting.lead(epoch=2)
        for _ in range(new):
            append(self.partition, b"new")

    def after_chunks(self, monkeypatch, count, interfere):
        """Call ``interfere`` after so many chunks of one batch each have been copied."""
        monkeypatch.setattr(replica_alter_log_dirs_manager, "COPY_CHUNK_BYTES", 1)
        append_chunk, chunks = ReplicaAlterLogDirsTask._append, iter(range(1, 10_000))

        def append_and_count(move, records):
            append_chunk(move, records)
            if next(chunks) == count:
                interfere()

        monkeypatch.setattr(ReplicaAlterLogDirsTask, "_append", append_and_count)

    def values(self):
        return [record.value for record in records_from(self.partition.log)]


def directory_names(path):
    return sorted(each.name for each in path.iterdir() if each.is_dir())


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
async def test_log_is_moved_with_all_its_records(tmp_path, monkeypatch, chunk_bytes):
    monkeypatch.setattr(replica_alter_log_dirs_manager, "COPY_CHUNK_BYTES", chunk_bytes)
    bench = Bench(tmp_path)
    for number in range(20):
        append(bench.partition, b"%d" % number)
    bench.partition.log.roll(now_ms=NOW_MS)
    append(bench.partition, b"20")
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert bench.hosting.logs.find(EVENTS) is bench.partition.hosted_log
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert bench.values() == [b"%d" % number for number in range(21)]
    assert bench.partition.log.high_watermark == 21
    assert directory_names(target.path) == ["events-0"]
    append(bench.partition, b"21")
    assert bench.values()[-1] == b"21"


async def test_appends_continue_during_a_move_and_none_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(replica_alter_log_dirs_manager, "COPY_CHUNK_BYTES", 200)
    bench = Bench(tmp_path)
    for number in range(50):
        append(bench.partition, b"%d" % number)
    target = await bench.move()
    number = 50
    while bench.moves.is_moving(EVENTS):
        append(bench.partition, b"%d" % number)
        number += 1
        await asyncio.sleep(0.0005)
    assert number > 50
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [b"%d" % each for each in range(number)]


async def test_moved_log_keeps_its_log_start_offset(tmp_path):
    bench = Bench(tmp_path)
    for number in range(10):
        append(bench.partition, b"%d" % number)
    bench.partition.log.maybe_increment_log_start_offset(4)
    await bench.move()
    await bench.ended()
    assert bench.partition.log.log_start_offset == 4
    assert bench.values() == [b"%d" % number for number in range(4, 10)]


async def test_records_deleted_during_the_copy_stay_deleted(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    bench.after_chunks(
        monkeypatch, 3, lambda: bench.partition.log.maybe_increment_log_start_offset(25)
    )
    await bench.move()
    await bench.ended()
    assert bench.partition.log.log_start_offset == 25
    assert bench.values() == [b"%d" % number for number in range(25, 30)]


async def test_records_deleted_while_the_copy_restarts_do_not_abort_the_move(
    tmp_path, monkeypatch, caplog
):
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    bench.after_chunks(
        monkeypatch, 3, lambda: bench.partition.log.maybe_increment_log_start_offset(25)
    )
    execute_on_disk, deleted = bench.hosting.disk.execute, []

    async def execute_and_delete(work):
        await execute_on_disk(work)
        if bench.partition.log.log_start_offset == 25:
            bench.partition.log.maybe_increment_log_start_offset(28)
            deleted.append(work)

    monkeypatch.setattr(bench.hosting.disk, "execute", execute_and_delete)
    target = await bench.move()
    await bench.ended()
    assert deleted
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [b"28", b"29"]
    assert "Aborted moving" not in caplog.text


async def test_truncation_during_the_move_also_truncates_the_copy(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)

    bench.after_chunks(monkeypatch, 10, lambda: bench.truncate_to(5))
    await bench.move()
    await bench.ended()
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 30


async def test_chunk_read_across_a_truncation_is_not_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(replica_alter_log_dirs_manager, "COPY_CHUNK_BYTES", 1)
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    run_in, reads = bench.hosting.disk.run_in, iter(range(1, 10_000))

    def truncate_and_run(directory, call, *arguments):
        if call is files.read_at and next(reads) == 10:
            bench.truncate_to(5)
        return run_in(directory, call, *arguments)

    monkeypatch.setattr(bench.hosting.disk, "run_in", truncate_and_run)
    await bench.move()
    await bench.ended()
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 30


async def test_copy_that_only_looks_complete_does_not_replace_the_log(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    execute_on_disk = bench.hosting.disk.execute
    truncations = []

    async def execute_and_truncate(work):
        await execute_on_disk(work)
        if work.description.startswith("marking") and not truncations:
            bench.truncate_to(5, new=25)
            truncations.append(work)

    monkeypatch.setattr(bench.hosting.disk, "execute", execute_and_truncate)
    await bench.move()
    await bench.ended()
    assert truncations
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 25


async def test_log_flushed_at_every_append_can_be_moved(tmp_path, monkeypatch):
    bench = Bench(tmp_path, flush_messages=1)
    execute_on_disk, marks, waiting = bench.hosting.disk.execute, [], []

    async def execute_and_produce(work):
        await execute_on_disk(work)
        if work.description.startswith("marking") and len(marks) < 10:
            marks.append(work)
            append_info = bench.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
            acknowledged = bench.partition.wait_until_acknowledged(
                append_info, acks=1, timeout_s=30
            )
            waiting.append(bench.hosting.background.start(acknowledged))
            await asyncio.wait(waiting, timeout=0.2)  # bounded, as it may wait for the move

    monkeypatch.setattr(bench.hosting.disk, "execute", execute_and_produce)
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert len(marks) <= 2
    await asyncio.gather(*waiting)
    assert bench.values() == [b"v"] * len(marks)


async def test_leader_epoch_without_records_is_moved(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    bench.hosting.lead(epoch=7)
    await bench.move()
    await bench.ended()
    assert bench.partition.log.leader_epoch_cache.latest_entry == (7, 1)


async def test_fetch_watchers_are_notified_when_the_log_is_replaced(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    watcher = WatcherEvent()
    bench.partition.fetch_watchers.add(watcher)
    await bench.move()
    await bench.ended()
    assert watcher.is_set()


async def test_move_is_resumed_after_a_restart(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    target = bench.others[0]
    bench.hosting.logs.create_future(EVENTS, target, now_ms=NOW_MS)
    bench.moves.resume(EVENTS)
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    bench.moves.resume(EVENTS)
    assert not bench.moves.is_moving(EVENTS)


async def test_failed_target_leaves_the_log_where_it_is(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    for _ in range(30):
        append(bench.partition, b"a")
    source, target = bench.partition.hosted_log.directory, bench.others[0]
    bench.after_chunks(monkeypatch, 3, lambda: target.mark_offline(OSError("broken"), "a test"))
    await bench.move(target)
    await bench.ended()
    assert bench.partition.hosted_log.directory is source
    assert len(bench.values()) == 30
    assert bench.hosting.logs.cleaner_manager.states[EVENTS].name == "IDLE"


async def test_compaction_is_paused_until_the_move_ends(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    await bench.move()
    states = bench.hosting.logs.cleaner_manager.states
    await asyncio.sleep(0)
    assert states[EVENTS].name == "PAUSED"
    await bench.ended()
    assert states[EVENTS].name == "IDLE"


async def test_invalid_moves_are_rejected(tmp_path):
    bench = Bench(tmp_path)
    target = str(bench.others[0].path)
    with pytest.raises(LogDirNotFound):
        await bench.moves.move(EVENTS, "nowhere")
    with pytest.raises(UnknownTopicOrPartition):
        await bench.moves.move(TopicPartition("events", 9), target)
    with pytest.raises(InvalidTopic):
        await bench.moves.move(TopicPartition("x" * 249, 0), target)
    bench.hosting.known.partitions.add(("events", 5))
    with pytest.raises(NotLeaderOrFollower):
        await bench.moves.move(TopicPartition("events", 5), target)
    assert bench.moves.preferred_log_dirs[TopicPartition("events", 5)] is bench.others[0]


async def test_no_move_starts_while_its_target_or_another_directory_is_offline(tmp_path):
    bench = Bench(tmp_path, directories=("one", "two", "three"))
    broken, online = bench.others
    broken.mark_offline(OSError("broken"), "a test")
    for target in (broken, online):
        with pytest.raises(KafkaStorageError):
            await bench.move(target)
    assert bench.hosting.logs.find_future(EVENTS) is None


async def test_follower_replica_can_be_moved(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    bench.hosting.lead(leader=OTHER, replicas=(OTHER, BROKER), epoch=1)
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted_log.directory is target


@pytest.mark.parametrize(
    "broken", [(UnifiedLog, "read"), (replica_alter_log_dirs_manager, "files")]
)
async def test_read_error_takes_only_the_source_directory_offline(tmp_path, monkeypatch, broken):
    bench = Bench(tmp_path)
    append(bench.partition, b"v")
    source, target = bench.partition.hosted_log.directory, bench.others[0]

    def fail(*_, **__):
        raise OSError(errno.EIO, "it cannot be read")

    fail.read_at = fail
    monkeypatch.setattr(*broken, fail)
    await bench.move(target)
    await bench.ended()
    assert target.is_online
    assert not source.is_online


async def test_move_respects_its_quota(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    monkeypatch.setattr(replica_alter_log_dirs_manager, "THROTTLE_MAX_S", 0.001)
    for _ in range(3):
        append(bench.partition, b"v")
    copied = asyncio.Event()
    bench.after_chunks(monkeypatch, 1, copied.set)
    bench.moves.quota.limit = 0  # one chunk in each window
    target = await bench.move()
    future = bench.hosting.logs.find_future(EVENTS)
    await copied.wait()
    await asyncio.sleep(0.05)
    assert future.log.log_end_offset == 1
    assert bench.partition.hosted_log.directory is not target
    bench.moves.quota.limit = 2**63 - 1
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [b"v"] * 3


async def test_copy_restarts_when_the_log_start_passes_its_end(tmp_path, monkeypatch):
    bench = Bench(tmp_path, segment_bytes=300)
    for number in range(20):
        append(bench.partition, b"%d" % number)
    logs, was_empty = bench.hosting.logs, []
    truncate_fully = logs.truncate_fully_and_start_at

    def record_truncation(hosted, new_start, *, now_ms):
        was_empty.append(hosted.log.segments.is_single_empty_segment)
        return truncate_fully(hosted, new_start, now_ms=now_ms)

    logs.truncate_fully_and_start_at = record_truncation
    bench.after_chunks(
        monkeypatch, 10, lambda: bench.partition.log.maybe_increment_log_start_offset(18)
    )
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted_log.directory is target
    assert bench.values() == [b"18", b"19"]
    assert was_empty == [True]  # a disk thread has removed the records before
