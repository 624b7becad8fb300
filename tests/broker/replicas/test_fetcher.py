"""A follower beside its leader, each on logs of its own: in the end they hold the same bytes."""

import asyncio
from types import SimpleNamespace

import pytest

from odradek.broker.handlers import list_offsets
from odradek.broker.metadata.picture import Node
from odradek.broker.replicas.fetcher import Fetcher, Ground
from odradek.broker.settings.replication import ReplicationSettings
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import Uuid
from tests.support.calls import as_sent, called, in_the_end
from tests.support.fetches import FetchBench
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS, bytes_of, records_batch
from tests.support.loops import at_end

LEADER, FOLLOWER = 1, 2
TOPIC_ID = Uuid(bytes([7] * 16))
SETTINGS = ReplicationSettings(fetch_wait_max_ms=0, fetch_backoff_ms=10)


class Wire:
    """To the leader's handlers; while it is cut, nobody answers."""

    def __init__(self, bench):
        self.bench = bench
        self.is_cut = False
        self.refusal = None
        self.versions = set()
        self._is_used = asyncio.Event()
        #: Whether answers come, and whether one does not.
        self.may_answer, self.is_held = asyncio.Event(), asyncio.Event()
        self.may_answer.set()

    async def used(self, times=1):
        """Until it has been asked for something so many times more."""
        for _ in range(times):
            self._is_used.clear()
            await self._is_used.wait()

    async def send(self, request, *, version):
        self._is_used.set()
        await asyncio.sleep(0)
        if self.is_cut:
            raise ConnectionResetError("cut")
        self.versions.add(version)
        if self.refusal is not None:
            return FetchResponse(error_code=self.refusal.code, responses=[])
        call = called(as_sent(request, version=version), version=version)
        if not isinstance(request, FetchRequest):
            replicas = self.bench.hosting.replicas
            answer = list_offsets.handle(replicas, None, lambda: NOW_MS, call)
            return as_sent(await in_the_end(answer), version=version)
        answer = await in_the_end(self.bench.answered(call))
        for topic in answer.responses:
            for line in topic.partitions:
                if isinstance(line.records, FileRegion):
                    line.records = bytes_of(line.records)
        self.is_held.set()
        await self.may_answer.wait()
        return as_sent(answer, version=version)

    def close(self):
        self.is_cut = True


class Pair:
    """One partition on two brokers."""

    def __init__(self, path, *, topic_id=TOPIC_ID, settings=SETTINGS):
        self.topic_id = topic_id
        self.bench = FetchBench(path / "leader", segment_bytes=2000)
        self.there = Hosting(path / "follower", segment_bytes=2000)
        self.epoch = -1
        self.lead()
        self.wire = Wire(self.bench)
        ground = Ground(
            FOLLOWER,
            logs=self.there.logs,
            care=self.there.care,
            settings=lambda: settings,
            broker_epoch=lambda: 1,
            now_ms=lambda: NOW_MS,
        )
        self.fetcher = Fetcher(Node(LEADER, "leader", 1, None), self.wire, ground)
        self.task = self.there.background.start(self.fetcher.run(), "fetcher")
        at_end(self._close)

    async def _close(self):
        self.fetcher.close()

    def lead(self):
        """In the next epoch."""
        self.epoch += 1
        both = (LEADER, FOLLOWER)
        self.leader = self.bench.lead(
            epoch=self.epoch, replicas=both, in_sync=[LEADER], topic_id=self.topic_id
        )

    def follow(self):
        self.follower = self.there.lead(
            leader=9, epoch=self.epoch, replicas=(1, 2, 9), topic_id=self.topic_id
        )
        self.fetcher.follow(self.follower)

    def write(self, *values, to=None, epoch=None):
        log = (to or self.leader).log
        for value in values:
            log.append_as_leader(
                records_batch(value), leader_epoch=epoch or self.epoch, now_ms=NOW_MS
            )

    async def settle(self):
        """Until the follower has all, and knows that others have it too."""
        log = self.leader.log
        log.advance_high_watermark(log.end_offset)
        await self.agree()
        assert content(self.follower) == content(self.leader)

    async def agree(self):
        async with asyncio.timeout(10):
            while self.state(self.follower) != self.state(self.leader):
                await self.wire.used()

    def hold_cuts(self):
        """Until one is to be carried out, and until it may be."""
        begun, may_run = asyncio.Event(), asyncio.Event()
        carry_out = self.there.care.carry_out

        async def carry_out_later(work):
            begun.set()
            await may_run.wait()
            await carry_out(work)

        self.there.care.carry_out = carry_out_later
        return begun, may_run

    def part(self):
        """The follower has led, and has records that the leader of now never had."""
        self.wire.is_cut = True
        self.write(b"other", to=self.follower, epoch=1)
        self.lead()
        self.lead()
        self.write(b"2")
        self.follow()
        self.wire.is_cut = False

    def state(self, partition):
        log = partition.log
        return log.start_offset, log.high_watermark, log.end_offset


def content(partition):
    return b"".join(bytes_of(_whole(each)) for each in partition.log.segments)


def _whole(segment):
    return SimpleNamespace(
        descriptor=segment.file.descriptor, position=0, length=segment.size_bytes
    )


@pytest.mark.parametrize("topic_id", [TOPIC_ID, None])
async def test_a_follower_gets_all_that_its_leader_has(tmp_path, topic_id):
    pair = Pair(tmp_path, topic_id=topic_id)
    pair.write(*[b"%d" % each for each in range(100)])
    pair.follow()
    await pair.settle()
    pair.write(b"more")
    await pair.settle()
    assert pair.wire.versions == {12 if topic_id is None else 17}
    assert pair.follower.log.epochs.latest_epoch == pair.epoch


async def test_what_the_leader_never_had_is_cut(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1", b"2")
    pair.follow()
    await pair.settle()
    pair.wire.is_cut = True
    pair.follower.end(ValueError())
    pair.write(b"other", b"others", to=pair.follower, epoch=1)
    pair.lead()
    pair.lead()
    pair.write(b"3", b"4", b"5")
    pair.follow()
    pair.wire.is_cut = False
    await pair.settle()
    assert pair.follower.log.end_offset == 5


async def test_a_tail_that_no_epoch_tells_of_goes_back_to_the_watermark(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    pair.wire.is_cut = True
    pair.write(b"other", to=pair.follower)
    pair.follower.log.epochs.clear()
    pair.write(b"1", b"2")
    pair.wire.is_cut = False
    await pair.settle()


async def test_a_leader_that_lost_more_than_it_knows_cuts_its_followers(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1", b"2", b"3")
    pair.follow()
    await pair.settle()
    pair.wire.is_cut = True
    work = pair.bench.hosting.logs.truncate(pair.leader.hosted, 1, now_ms=NOW_MS)
    await pair.bench.hosting.care.carry_out(work)
    pair.lead()
    pair.write(b"again")
    pair.follow()
    pair.wire.is_cut = False
    await pair.settle()
    assert pair.follower.log.end_offset == 2


async def test_a_follower_whose_place_is_gone_begins_where_the_leader_does(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1")
    pair.follow()
    await pair.settle()
    pair.wire.is_cut = True
    pair.write(*[bytes(500)] * 20)
    log = pair.leader.log
    log.advance_high_watermark(log.end_offset)
    log.advance_start(15)
    pair.wire.is_cut = False
    await pair.agree()
    assert pair.follower.log.segments.first.base_offset == 15


async def test_the_start_of_the_leader_is_followed(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1", b"2", b"3")
    pair.follow()
    await pair.settle()
    pair.leader.log.advance_start(2)
    pair.leader.wake()
    await pair.settle()
    assert pair.follower.log.start_offset == 2


async def test_what_comes_after_another_epoch_has_begun_is_not_taken(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()
    pair.epoch += 1  # the follower knows of it, and the leader does not yet
    pair.follow()
    pair.write(b"1", epoch=1)
    await pair.wire.used(3)
    assert pair.follower.log.end_offset == 0


async def test_nothing_is_fetched_of_what_is_forgotten(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()
    pair.fetcher.forget(pair.follower.topic_partition)
    assert pair.fetcher.is_idle
    pair.write(b"1")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await pair.wire.used(2)  # one may have been on its way
    assert pair.follower.log.end_offset == 0


async def test_a_leader_that_forgets_sessions_is_asked_for_everything_again(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()
    pair.bench.sessions = type(pair.bench.sessions)(slots=10, now_ms=lambda: NOW_MS)
    pair.write(b"1")
    await pair.settle()


async def asked_for_nothing(pair):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await pair.wire.used(2)  # one may have been on its way


async def test_an_answer_that_does_not_continue_the_log_any_more_is_not_taken(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1", b"2")
    pair.follow()
    await pair.settle()
    pair.wire.may_answer.clear()
    pair.wire.is_held.clear()
    pair.write(b"3")
    await pair.wire.is_held.wait()
    # Another leads, has the follower cut its log, and leads no more.
    work = pair.there.logs.truncate(pair.follower.hosted, 1, now_ms=NOW_MS)
    pair.follower.cut()
    await pair.there.care.carry_out(work)
    pair.lead()
    pair.follow()
    pair.wire.may_answer.set()
    await pair.settle()


async def test_nothing_is_appended_before_a_cut_in_an_earlier_epoch_is_carried_out(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1", b"2")
    pair.follow()
    await pair.settle()
    work = pair.there.logs.truncate(pair.follower.hosted, 1, now_ms=NOW_MS)
    pair.follower.cut()
    pair.lead()
    pair.follow()
    await asked_for_nothing(pair)
    assert pair.follower.log.end_offset == 1
    await pair.there.care.carry_out(work)
    await pair.settle()


async def test_a_mistake_in_one_partition_is_told_once_and_does_not_end_the_fetching(
    tmp_path, caplog
):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()

    def broken(*_, **__):
        raise AssertionError("a mistake")

    pair.follower.append_as_follower = broken
    pair.write(b"1")
    await pair.wire.used(5)
    assert caplog.text.count("is not fetched from broker 1: AssertionError('a mistake')") == 1
    del pair.follower.append_as_follower
    await pair.settle()


async def test_a_mistake_anywhere_does_not_end_the_fetching(tmp_path, monkeypatch, caplog):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()
    is_tried = asyncio.Event()

    def broken(*_, **__):
        is_tried.set()
        raise AssertionError("a mistake")

    with monkeypatch.context() as patched:
        patched.setattr(pair.wire, "send", broken)
        await is_tried.wait()
    pair.write(b"1")
    await pair.settle()
    assert "Fetching from broker 1 failed, and goes on" in caplog.text


async def test_a_tail_that_cannot_be_cut_now_is_cut_later(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    pair.write(b"other", to=pair.follower)
    pair.follower.log.epochs.clear()
    pair.follower.hosted.is_in_doubt = True
    pair.write(b"1", b"2")
    await asked_for_nothing(pair)
    pair.follower.hosted.is_in_doubt = False
    await pair.settle()


async def test_a_topic_that_is_deleted_while_it_is_cut_may_be_made_again(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1")
    pair.follow()
    await pair.settle()
    begun, may_run = pair.hold_cuts()
    pair.part()
    await begun.wait()
    where = pair.follower.topic_partition
    pair.fetcher.forget(where)
    pair.there.replicas.stop(where, leader_epoch=-2, is_deleted=True)
    assert not await pair.there.replicas.delete([where])
    may_run.set()
    pair.follow()
    await pair.settle()


async def test_one_that_is_closed_while_it_cuts_ends(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    pair.write(b"other", to=pair.follower)
    pair.follower.log.epochs.clear()
    begun, may_run = pair.hold_cuts()
    await begun.wait()
    pair.fetcher.close()
    may_run.set()
    async with asyncio.timeout(5):
        await pair.task


async def test_a_leader_that_gives_nobody_a_session_is_not_asked_all_the_time(tmp_path, caplog):
    pair = Pair(tmp_path)
    pair.wire.refusal = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    pair.follow()
    clock = asyncio.get_running_loop().time
    began_s = clock()
    await pair.wire.used(11)
    assert clock() - began_s >= 9 * SETTINGS.fetch_backoff_ms / 1000
    assert caplog.text.count("Broker 1 cannot be fetched from: FETCH_SESSION_ID_NOT_FOUND") == 1
    pair.wire.refusal = None
    await pair.settle()


async def test_a_leader_that_does_not_know_it_yet_is_soon_asked_again(tmp_path):
    pair = Pair(tmp_path, settings=ReplicationSettings(fetch_wait_max_ms=0))
    pair.epoch += 1
    pair.follow()
    async with asyncio.timeout(0.9):  # the usual rest is longer
        await pair.wire.used(2)
        pair.epoch -= 1
        pair.lead()
        pair.write(b"1")
        await pair.settle()
