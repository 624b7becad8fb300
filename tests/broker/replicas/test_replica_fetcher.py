"""A follower beside its leader, each on logs of its own: in the end they hold the same bytes."""

import asyncio

import pytest

from tests.support.faulty_disk import SYNCS, FaultyDisk
from tests.support.logs import NOW_MS
from tests.support.replica_pair import TOPIC_ID, Pair


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


def syncs_of(monkeypatch, logs, name):
    """How often each cut, when it is only planned, has synced anything."""
    plan, seen = getattr(logs, name), []

    def counted(*cut, **when):
        with FaultyDisk(counting=SYNCS) as disk:
            work = plan(*cut, **when)
        seen.append(disk.changes)
        return work

    monkeypatch.setattr(logs, name, counted)
    return seen


@pytest.mark.parametrize("count", [1, 20])
async def test_a_log_begins_anew_without_a_sync_on_the_loop(tmp_path, monkeypatch, count):
    pair = Pair(tmp_path)
    pair.write(*[bytes(500)] * count)
    pair.follow()
    await pair.settle()
    syncs = syncs_of(monkeypatch, pair.there.logs, "truncate_fully")
    pair.wire.is_cut = True
    pair.write(*[bytes(500)] * 20)
    log = pair.leader.log
    log.advance_high_watermark(log.end_offset)
    log.advance_start(count + 15)
    pair.wire.is_cut = False
    await pair.agree()
    assert syncs == [0]
    assert pair.follower.log.segments.first.base_offset == count + 15


async def test_so_does_one_that_is_cut_before_its_first_offset(tmp_path, monkeypatch):
    pair = Pair(tmp_path)
    pair.write(*[bytes(500)] * 20)
    pair.leader.log.advance_high_watermark(20)
    pair.leader.log.advance_start(15)
    pair.follow()
    await pair.agree()
    assert pair.follower.log.segments.first.base_offset == 15
    syncs = syncs_of(monkeypatch, pair.there.logs, "truncate")
    pair.wire.is_cut = True
    lost = pair.bench.hosting.logs.truncate_fully(pair.leader.hosted, 3, now_ms=NOW_MS)
    await pair.bench.hosting.care.carry_out(lost)
    pair.lead()
    pair.write(b"instead")
    pair.follow()
    pair.wire.is_cut = False
    await pair.settle()
    assert syncs == [0, 0]
    assert pair.follower.log.segments.first.base_offset == 3


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


async def test_a_throttled_partition_is_fetched_as_fast_as_may_be_until_it_has_all(tmp_path):
    pair = Pair(tmp_path)
    pair.throttle.configure("events", ("*",), broker_id=2)
    pair.throttle.rate.limit = 10
    pair.write(*[bytes(900)] * 4)  # two fit into a segment, and so into an answer
    pair.leader.log.advance_high_watermark(4)
    pair.follow()
    await pair.wire.used()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await pair.wire.used()
    assert pair.follower.log.end_offset == 2
    pair.now_s += 60
    await pair.settle()
    assert pair.throttle.rate.is_exceeded
    pair.write(b"in sync, and so not held up")
    await pair.settle()


async def test_what_the_leader_has_become_a_follower_of_is_not_taken(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()
    pair.write(b"of another leader", epoch=pair.epoch + 1)
    await pair.wire.used(3)
    assert pair.follower.log.end_offset == 0
