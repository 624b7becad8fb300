"""Moving replicas to other log directories while they are in use."""

import asyncio
import errno

import pytest

from odradek.broker.replicas import log_dir_move
from odradek.broker.replicas.log_dir_move import LogDirMove, LogDirMoves
from odradek.broker.replicas.waiter import Stir
from odradek.protocol.errors import (
    InvalidTopic,
    KafkaStorageError,
    LogDirNotFound,
    NotLeader,
    UnknownTopicOrPartition,
)
from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.log import Log
from odradek.storage.manager.disk_work import carry_out
from tests.support.fetches import append
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.logs import NOW_MS, records_batch, records_from

OTHER = 2
EVENTS = TopicPartition("events", 0)


class Bench:
    """Two directories, and a partition in one of them."""

    def __init__(self, tmp_path, *, directories=("one", "two"), **settings):
        self.hosting = Hosting(*(tmp_path / name for name in directories), **settings)
        self.partition = self.hosting.lead()
        self.moves = LogDirMoves(
            self.hosting.replicas,
            self.hosting.logs,
            care=self.hosting.care,
            disk=self.hosting.disk,
            start=self.hosting.background.start,
            now_ms=lambda: NOW_MS,
        )

    @property
    def others(self):
        """Where it is not."""
        here = self.partition.hosted.directory
        return [each for each in self.hosting.logs.directories if each is not here]

    async def move(self, target=None):
        target = target or self.others[0]
        await self.moves.move(EVENTS, str(target.path))
        return target

    async def ended(self):
        if task := self.moves._tasks.get(EVENTS):
            await asyncio.wait([task])

    def cut_to(self, offset, new=30):
        """As a follower does, and then leads and gets other records."""
        self.hosting.lead(leader=OTHER, replicas=(OTHER, BROKER), epoch=1)
        carry_out(self.hosting.logs.truncate(self.partition.hosted, offset, now_ms=NOW_MS))
        self.hosting.lead(epoch=2)
        for _ in range(new):
            append(self.partition, b"new")

    def after_slices(self, monkeypatch, count, interfere):
        """Call ``interfere`` once so many slices, of one batch each, have been copied."""
        monkeypatch.setattr(log_dir_move, "SLICE_BYTES", 1)
        append_slice, slices = LogDirMove._append, iter(range(1, 10_000))

        def appended(move, records):
            append_slice(move, records)
            if next(slices) == count:
                interfere()

        monkeypatch.setattr(LogDirMove, "_append", appended)

    def values(self):
        return [record.value for record in records_from(self.partition.log)]


def directories_of(path):
    return sorted(each.name for each in path.iterdir() if each.is_dir())


@pytest.mark.parametrize("slice_bytes", [1, 1 << 20])
async def test_a_log_is_moved_with_all_it_has(tmp_path, monkeypatch, slice_bytes):
    monkeypatch.setattr(log_dir_move, "SLICE_BYTES", slice_bytes)
    bench = Bench(tmp_path)
    for number in range(20):
        append(bench.partition, b"%d" % number)
    bench.partition.log.roll(now_ms=NOW_MS)
    append(bench.partition, b"20")
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert bench.hosting.logs.find(EVENTS) is bench.partition.hosted
    assert bench.hosting.logs.find_future(EVENTS) is None
    assert bench.values() == [b"%d" % number for number in range(21)]
    assert bench.partition.log.high_watermark == 21
    assert directories_of(target.path) == ["events-0"]
    append(bench.partition, b"21")
    assert bench.values()[-1] == b"21"


async def test_appends_go_on_meanwhile_and_none_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(log_dir_move, "SLICE_BYTES", 200)
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
    assert bench.partition.hosted.directory is target
    assert bench.values() == [b"%d" % each for each in range(number)]


async def test_a_log_whose_beginning_was_deleted_begins_there(tmp_path):
    bench = Bench(tmp_path)
    for number in range(10):
        append(bench.partition, b"%d" % number)
    bench.partition.log.advance_start(4)
    await bench.move()
    await bench.ended()
    assert bench.partition.log.start_offset == 4
    assert bench.values() == [b"%d" % number for number in range(4, 10)]


async def test_records_deleted_while_it_is_copied_stay_deleted(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    bench.after_slices(monkeypatch, 3, lambda: bench.partition.log.advance_start(25))
    await bench.move()
    await bench.ended()
    assert bench.partition.log.start_offset == 25
    assert bench.values() == [b"%d" % number for number in range(25, 30)]


async def test_records_deleted_while_the_copy_is_begun_anew_are_no_obstacle(
    tmp_path, monkeypatch, caplog
):
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    bench.after_slices(monkeypatch, 3, lambda: bench.partition.log.advance_start(25))
    carry_out_on_disk, deleted = bench.hosting.disk.carry_out, []

    async def carry_out_and_delete(work):
        await carry_out_on_disk(work)
        if bench.partition.log.start_offset == 25:
            bench.partition.log.advance_start(28)
            deleted.append(work)

    monkeypatch.setattr(bench.hosting.disk, "carry_out", carry_out_and_delete)
    target = await bench.move()
    await bench.ended()
    assert deleted
    assert bench.partition.hosted.directory is target
    assert bench.values() == [b"28", b"29"]
    assert "broken off" not in caplog.text


async def test_a_log_that_is_truncated_meanwhile_is_truncated_in_the_copy_too(
    tmp_path, monkeypatch
):
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)

    bench.after_slices(monkeypatch, 10, lambda: bench.cut_to(5))
    await bench.move()
    await bench.ended()
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 30


async def test_what_is_read_across_a_truncation_is_not_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(log_dir_move, "SLICE_BYTES", 1)
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    run_in, reads = bench.hosting.disk.run_in, iter(range(1, 10_000))

    def cut_and_run(directory, call, *arguments):
        if call is files.read_at and next(reads) == 10:
            bench.cut_to(5)
        return run_in(directory, call, *arguments)

    monkeypatch.setattr(bench.hosting.disk, "run_in", cut_and_run)
    await bench.move()
    await bench.ended()
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 30


async def test_a_copy_that_only_looks_complete_does_not_take_the_logs_place(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    for number in range(30):
        append(bench.partition, b"%d" % number)
    carry_out_on_disk = bench.hosting.disk.carry_out
    was_cut = []

    async def carry_out_and_cut(work):
        await carry_out_on_disk(work)
        if work.what.startswith("marking") and not was_cut:
            bench.cut_to(5, new=25)
            was_cut.append(work)

    monkeypatch.setattr(bench.hosting.disk, "carry_out", carry_out_and_cut)
    await bench.move()
    await bench.ended()
    assert was_cut
    assert bench.values() == [b"%d" % number for number in range(5)] + [b"new"] * 25


async def test_a_log_that_is_synced_at_every_append_moves_too(tmp_path, monkeypatch):
    bench = Bench(tmp_path, flush_messages=1)
    carry_out_on_disk, marks, waiting = bench.hosting.disk.carry_out, [], []

    async def carry_out_and_produce(work):
        await carry_out_on_disk(work)
        if work.what.startswith("marking") and len(marks) < 10:
            marks.append(work)
            written = bench.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
            acknowledged = bench.partition.wait_until_acknowledged(written, acks=1, timeout_s=30)
            waiting.append(bench.hosting.background.start(acknowledged))
            await asyncio.wait(waiting, timeout=0.2)  # no longer, as it may wait for the move

    monkeypatch.setattr(bench.hosting.disk, "carry_out", carry_out_and_produce)
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert len(marks) <= 2
    await asyncio.gather(*waiting)
    assert bench.values() == [b"v"] * len(marks)


async def test_the_leaders_epoch_is_known_where_it_has_no_records_yet(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    bench.hosting.lead(epoch=7)
    await bench.move()
    await bench.ended()
    assert bench.partition.log.epochs.latest == (7, 1)


async def test_whoever_waits_for_records_is_woken_when_the_log_is_another(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    stir = Stir()
    bench.partition.waiting.add(stir)
    await bench.move()
    await bench.ended()
    assert stir.is_set()


async def test_a_copy_that_a_restart_finds_goes_on(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    target = bench.others[0]
    bench.hosting.logs.create_future(EVENTS, target, now_ms=NOW_MS)
    bench.moves.resume(EVENTS)
    bench.moves.resume(EVENTS)
    await bench.ended()
    assert bench.partition.hosted.directory is target
    bench.moves.resume(EVENTS)
    assert not bench.moves.is_moving(EVENTS)


async def test_a_target_that_fails_leaves_the_log_where_it_is(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    for _ in range(30):
        append(bench.partition, b"a")
    home, target = bench.partition.hosted.directory, bench.others[0]
    bench.after_slices(monkeypatch, 3, lambda: target.fail(OSError("broken"), "a test"))
    await bench.move(target)
    await bench.ended()
    assert bench.partition.hosted.directory is home
    assert len(bench.values()) == 30
    assert bench.hosting.logs.cleaner.states[EVENTS].name == "IDLE"


async def test_compaction_is_held_off_until_the_move_has_ended(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    await bench.move()
    states = bench.hosting.logs.cleaner.states
    await asyncio.sleep(0)
    assert states[EVENTS].name == "PAUSED"
    await bench.ended()
    assert states[EVENTS].name == "IDLE"


async def test_what_cannot_be_moved_is_refused(tmp_path):
    bench = Bench(tmp_path)
    target = str(bench.others[0].path)
    with pytest.raises(LogDirNotFound):
        await bench.moves.move(EVENTS, "nowhere")
    with pytest.raises(UnknownTopicOrPartition):
        await bench.moves.move(TopicPartition("events", 9), target)
    with pytest.raises(InvalidTopic):
        await bench.moves.move(TopicPartition("x" * 249, 0), target)
    bench.hosting.known.partitions.add(("events", 5))
    with pytest.raises(NotLeader):
        await bench.moves.move(TopicPartition("events", 5), target)
    assert bench.moves.preferred[TopicPartition("events", 5)] is bench.others[0]


async def test_nothing_is_moved_to_or_beside_a_directory_that_failed(tmp_path):
    bench = Bench(tmp_path, directories=("one", "two", "three"))
    broken, sound = bench.others
    broken.fail(OSError("broken"), "a test")
    for target in (broken, sound):
        with pytest.raises(KafkaStorageError):
            await bench.move(target)
    assert bench.hosting.logs.find_future(EVENTS) is None


async def test_followers_move_too(tmp_path):
    bench = Bench(tmp_path)
    append(bench.partition, b"a")
    bench.hosting.lead(leader=OTHER, replicas=(OTHER, BROKER), epoch=1)
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted.directory is target


@pytest.mark.parametrize("broken", [(Log, "read"), (log_dir_move, "files")])
async def test_a_disk_that_cannot_be_read_takes_only_its_own_directory_offline(
    tmp_path, monkeypatch, broken
):
    bench = Bench(tmp_path)
    append(bench.partition, b"v")
    source, target = bench.partition.hosted.directory, bench.others[0]

    def fail(*_, **__):
        raise OSError(errno.EIO, "it cannot be read")

    fail.read_at = fail
    monkeypatch.setattr(*broken, fail)
    await bench.move(target)
    await bench.ended()
    assert target.is_online
    assert not source.is_online


async def test_copies_keep_to_the_rate_that_is_set_for_them(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    monkeypatch.setattr(log_dir_move, "LONGEST_REST_S", 0.001)
    for _ in range(3):
        append(bench.partition, b"v")
    copied = asyncio.Event()
    bench.after_slices(monkeypatch, 1, copied.set)
    bench.moves.rate.limit = 0  # one slice in each window
    target = await bench.move()
    future = bench.hosting.logs.find_future(EVENTS)
    await copied.wait()
    await asyncio.sleep(0.05)
    assert future.log.end_offset == 1
    assert bench.partition.hosted.directory is not target
    bench.moves.rate.limit = 2**63 - 1
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert bench.values() == [b"v"] * 3


async def test_a_copy_that_ends_before_the_log_begins_is_begun_anew(tmp_path, monkeypatch):
    bench = Bench(tmp_path, segment_bytes=300)
    for number in range(20):
        append(bench.partition, b"%d" % number)
    logs, seen = bench.hosting.logs, []
    begin_anew = logs.truncate_fully

    def counted(hosted, new_start, *, now_ms):
        seen.append(hosted.log.segments.is_bare)
        return begin_anew(hosted, new_start, now_ms=now_ms)

    logs.truncate_fully = counted
    bench.after_slices(monkeypatch, 10, lambda: bench.partition.log.advance_start(18))
    target = await bench.move()
    await bench.ended()
    assert bench.partition.hosted.directory is target
    assert bench.values() == [b"18", b"19"]
    assert seen == [True]  # what was in it was removed by a disk thread
