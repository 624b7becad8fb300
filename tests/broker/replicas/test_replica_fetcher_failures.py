"""Errors, late responses and concurrent truncations neither stop a fetcher nor harm a log."""

import asyncio

import pytest

from odradek.broker.settings.replication import ReplicationSettings
from odradek.protocol.error_codes import ErrorCode
from tests.support.logs import NOW_MS
from tests.support.replica_pair import SETTINGS, Pair


async def expect_no_fetch(pair):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await pair.wire.used(2)  # one request may have been in flight


async def test_response_that_no_longer_continues_the_log_is_dropped(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1", b"2")
    pair.follow()
    await pair.settle()
    pair.wire.may_answer.clear()
    pair.wire.is_held.clear()
    pair.write(b"3")
    await pair.wire.is_held.wait()
    # Another broker leads, makes the follower truncate, and stops leading.
    work = pair.there.logs.truncate(pair.follower.hosted_log, 1, now_ms=NOW_MS)
    pair.follower.on_truncated()
    await pair.there.care.execute(work)
    pair.lead()
    pair.follow()
    pair.wire.may_answer.set()
    await pair.settle()


async def test_nothing_is_appended_before_a_truncation_of_an_earlier_epoch_is_done(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1", b"2")
    pair.follow()
    await pair.settle()
    work = pair.there.logs.truncate(pair.follower.hosted_log, 1, now_ms=NOW_MS)
    pair.follower.on_truncated()
    pair.lead()
    pair.follow()
    await expect_no_fetch(pair)
    assert pair.follower.log.log_end_offset == 1
    await pair.there.care.execute(work)
    await pair.settle()


async def test_partition_is_not_fetched_while_another_fetcher_truncates_it(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1")
    pair.follow()
    await pair.settle()
    begun, may_run = pair.hold_cuts()
    pair.part()
    await begun.wait()
    pair.fetcher.close()
    pair.connect()
    pair.lead()
    pair.follow()
    await expect_no_fetch(pair)
    assert pair.follower.hosted_log.is_truncating
    may_run.set()
    await pair.settle()


async def test_error_in_one_partition_is_logged_once_and_fetching_goes_on(tmp_path, caplog):
    pair = Pair(tmp_path)
    pair.follow()
    await pair.settle()

    def broken(*_, **__):
        raise AssertionError("a mistake")

    pair.follower.append_as_follower = broken
    pair.write(b"1")
    await pair.wire.used(5)
    name = pair.follower.topic_partition
    line = f"Delaying fetch of partition {name} from broker 1: AssertionError('a mistake')"
    assert caplog.text.count(line) == 1
    del pair.follower.append_as_follower
    await pair.settle()


async def test_unexpected_error_does_not_stop_the_fetcher(tmp_path, monkeypatch, caplog):
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
    assert "Unexpected error in fetcher for broker 1; retrying" in caplog.text


async def test_truncation_that_is_not_possible_now_is_retried(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    pair.write(b"other", to=pair.follower)
    pair.follower.log.leader_epoch_cache.clear()
    pair.follower.hosted_log.needs_recovery = True
    pair.write(b"1", b"2")
    await expect_no_fetch(pair)
    pair.follower.hosted_log.needs_recovery = False
    await pair.settle()


async def test_topic_deleted_during_a_truncation_can_be_created_again(tmp_path):
    pair = Pair(tmp_path)
    pair.write(b"1")
    pair.follow()
    await pair.settle()
    begun, may_run = pair.hold_cuts()
    pair.part()
    await begun.wait()
    partition = pair.follower.topic_partition
    pair.fetcher.remove_partition(partition)
    pair.there.replicas.stop(partition, leader_epoch=-2, is_deleted=True)
    assert not await pair.there.replicas.delete([partition])
    may_run.set()
    pair.follow()
    await pair.settle()


async def test_fetcher_closed_during_a_truncation_ends(tmp_path):
    pair = Pair(tmp_path)
    pair.follow()
    pair.write(b"other", to=pair.follower)
    pair.follower.log.leader_epoch_cache.clear()
    begun, may_run = pair.hold_cuts()
    await begun.wait()
    pair.fetcher.close()
    may_run.set()
    async with asyncio.timeout(5):
        await pair.task


async def test_leader_without_fetch_sessions_is_fetched_with_a_backoff(tmp_path, caplog):
    pair = Pair(tmp_path)
    pair.wire.refusal = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    pair.follow()
    clock = asyncio.get_running_loop().time
    began_s = clock()
    await pair.wire.used(11)
    assert clock() - began_s >= 9 * SETTINGS.fetch_backoff_ms / 1000
    assert (
        caplog.text.count(
            "Error in response for fetch request to broker 1: FETCH_SESSION_ID_NOT_FOUND"
        )
        == 1
    )
    pair.wire.refusal = None
    await pair.settle()


async def test_leader_that_does_not_know_the_epoch_yet_is_soon_fetched_again(tmp_path):
    pair = Pair(tmp_path, settings=ReplicationSettings(fetch_wait_max_ms=0))
    pair.epoch += 1
    pair.follow()
    async with asyncio.timeout(0.9):  # the usual backoff is longer
        await pair.wire.used(2)
        pair.epoch -= 1
        pair.lead()
        pair.write(b"1")
        await pair.settle()
