"""What fails, comes late or is in another's way does not end the fetching, nor harm a log."""

import asyncio

import pytest

from odradek.broker.settings.replication import ReplicationSettings
from odradek.protocol.error_codes import ErrorCode
from tests.support.logs import NOW_MS
from tests.support.replica_pair import SETTINGS, Pair


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


async def test_nothing_is_asked_for_what_another_fetcher_has_not_cut_yet(tmp_path):
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
    await asked_for_nothing(pair)
    assert pair.follower.hosted.is_being_cut
    may_run.set()
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
