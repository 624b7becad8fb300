"""A follower and its leader, each with its own logs, end with the same bytes."""

import asyncio

import pytest

from tests.support.faulty_disk import SYNCS, FaultyDisk
from tests.support.logs import NOW_MS
from tests.support.replica_pair import TOPIC_ID, Pair


@pytest.mark.parametrize("topic_id", [TOPIC_ID, None])
async def test_follower_replicates_all_records_of_its_leader(tmp_path, topic_id):
    pair = Pair(tmp_path, topic_id=topic_id)
    pair.write(*[b"%d" % each for each in range(100)])
    pair.follow()
    await pair.settle()
    pair.write(b"more")
    await pair.settle()
    assert pair.wire.versions == {12 if topic_id is None else 17}
    assert pair.follower.log.leader_epoch_cache.latest_epoch == pair.epoch


async def test_records_that_the_leader_never_had_are_truncated(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1", b"2")
    pair.follow()
    await pair.settle()
    pair.wire.is_cut = True
    pair.follower.stop(ValueError())
    pair.write(b"other", b"others", to=pair.follower, epoch=1)
    pair.lead()
    pair.lead()
    pair.write(b"3", b"4", b"5")
    pair.follow()
    pair.wire.is_cut = False
    await pair.settle()
    assert pair.follower.log.log_end_offset == 5


async def test_log_without_leader_epochs_is_truncated_to_the_high_watermark(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    pair.wire.is_cut = True
    pair.write(b"other", to=pair.follower)
    pair.follower.log.leader_epoch_cache.clear()
    pair.write(b"1", b"2")
    pair.wire.is_cut = False
    await pair.settle()


async def test_leader_that_lost_records_makes_its_followers_truncate(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1", b"2", b"3")
    pair.follow()
    await pair.settle()
    pair.wire.is_cut = True
    work = pair.bench.hosting.logs.truncate(pair.leader.hosted_log, 1, now_ms=NOW_MS)
    await pair.bench.hosting.care.execute(work)
    pair.lead()
    pair.write(b"again")
    pair.follow()
    pair.wire.is_cut = False
    await pair.settle()
    assert pair.follower.log.log_end_offset == 2


async def test_follower_below_the_leaders_log_start_offset_restarts_there(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1")
    pair.follow()
    await pair.settle()
    pair.wire.is_cut = True
    pair.write(*[bytes(500)] * 20)
    log = pair.leader.log
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(15)
    pair.wire.is_cut = False
    await pair.agree()
    assert pair.follower.log.segments.first.base_offset == 15


def count_syncs_while_planning(monkeypatch, logs, name):
    """Return a list to which each planned truncation adds how often planning synced."""
    plan, sync_counts = getattr(logs, name), []

    def counted(*arguments, **keywords):
        with FaultyDisk(counting=SYNCS) as disk:
            work = plan(*arguments, **keywords)
        sync_counts.append(disk.changes)
        return work

    monkeypatch.setattr(logs, name, counted)
    return sync_counts


@pytest.mark.parametrize("count", [1, 20])
async def test_truncating_fully_does_not_flush_on_the_event_loop(tmp_path, monkeypatch, count):
    pair = Pair(tmp_path)
    pair.write(*[bytes(500)] * count)
    pair.follow()
    await pair.settle()
    syncs = count_syncs_while_planning(monkeypatch, pair.there.logs, "truncate_fully_and_start_at")
    pair.wire.is_cut = True
    pair.write(*[bytes(500)] * 20)
    log = pair.leader.log
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(count + 15)
    pair.wire.is_cut = False
    await pair.agree()
    assert syncs == [0]
    assert pair.follower.log.segments.first.base_offset == count + 15


async def test_truncating_below_the_log_start_does_not_flush_on_the_event_loop(
    tmp_path, monkeypatch
):
    pair = Pair(tmp_path)
    pair.write(*[bytes(500)] * 20)
    pair.leader.log.update_high_watermark(20)
    pair.leader.log.maybe_increment_log_start_offset(15)
    pair.follow()
    await pair.agree()
    assert pair.follower.log.segments.first.base_offset == 15
    syncs = count_syncs_while_planning(monkeypatch, pair.there.logs, "truncate")
    pair.wire.is_cut = True
    lost = pair.bench.hosting.logs.truncate_fully_and_start_at(
        pair.leader.hosted_log, 3, now_ms=NOW_MS
    )
    await pair.bench.hosting.care.execute(lost)
    pair.lead()
    pair.write(b"instead")
    pair.follow()
    pair.wire.is_cut = False
    await pair.settle()
    assert syncs == [0, 0]
    assert pair.follower.log.segments.first.base_offset == 3


async def test_follower_adopts_the_log_start_offset_of_its_leader(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1", b"2", b"3")
    pair.follow()
    await pair.settle()
    pair.leader.log.maybe_increment_log_start_offset(2)
    pair.leader.notify_watchers()
    await pair.settle()
    assert pair.follower.log.log_start_offset == 2


async def test_response_from_before_a_new_leader_epoch_is_dropped(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()
    pair.epoch += 1  # the follower knows the new epoch, the leader does not yet
    pair.follow()
    pair.write(b"1", epoch=1)
    await pair.wire.used(3)
    assert pair.follower.log.log_end_offset == 0


async def test_removed_partition_is_not_fetched(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()
    pair.fetcher.remove_partition(pair.follower.topic_partition)
    assert pair.fetcher.is_idle
    pair.write(b"1")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await pair.wire.used(2)  # one request may have been in flight
    assert pair.follower.log.log_end_offset == 0


async def test_full_fetch_is_sent_after_the_leader_lost_its_session(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()
    pair.bench.sessions = type(pair.bench.sessions)(slots=10, now_ms=lambda: NOW_MS)
    pair.write(b"1")
    await pair.settle()


async def test_throttled_partition_is_fetched_at_the_quota_until_it_is_in_sync(tmp_path):
    pair = Pair(tmp_path)
    pair.throttle.configure("events", ("*",), broker_id=2)
    pair.throttle.rate.limit = 10
    pair.write(*[bytes(900)] * 4)  # two fit into a segment, and so into a response
    pair.leader.log.update_high_watermark(4)
    pair.follow()
    await pair.wire.used()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await pair.wire.used()
    assert pair.follower.log.log_end_offset == 2
    pair.now_s += 60
    await pair.settle()
    assert pair.throttle.rate.is_exceeded
    pair.write(b"in sync, and so not held up")
    await pair.settle()


async def test_records_of_a_newer_leader_epoch_are_not_appended(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()
    pair.write(b"of another leader", epoch=pair.epoch + 1)
    await pair.wire.used(3)
    assert pair.follower.log.log_end_offset == 0
