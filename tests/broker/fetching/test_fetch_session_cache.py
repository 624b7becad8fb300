"""Incremental fetch sessions: what is asked again, what is told again, and who has a session."""

import asyncio

import pytest

from odradek.broker import turns
from odradek.broker.fetching import fetch_plan
from odradek.broker.fetching.fetch_session import epoch_after
from odradek.broker.fetching.fetch_sessions import EVICTION_MS
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.protocol.types import Uuid
from odradek.storage.producers.append import AppendOrigin
from tests.support.calls import in_the_end
from tests.support.fetches import FetchBench, append, asked, errors, numbers, request, told
from tests.support.hosted_partitions import BROKER
from tests.support.logs import NOW_MS

OTHER = 2
AN_ID, ANOTHER_ID = Uuid(bytes([1] * 16)), Uuid(bytes([2] * 16))


def opened(bench, *partitions, version=12, **fields):
    """The id of a new session."""
    response = bench.fetched(request(*partitions, session_epoch=0, **fields), version=version)
    assert response.session_id > 0
    return response.session_id


def next_of(session, epoch, *partitions, forgotten=(), topic_id=None, **fields):
    wanted = request(*partitions, session_id=session, session_epoch=epoch, **fields)
    if forgotten:
        gone = FetchRequest.ForgottenTopic(topic="events", partitions=list(forgotten))
        wanted.forgotten_topics_data = [gone]
    if topic_id is not None:
        for topic in [*wanted.topics, *wanted.forgotten_topics_data]:
            topic.topic, topic.topic_id = "", topic_id
    return wanted


def error_of(response):
    assert not response.responses
    return ErrorCode.of(response.error_code).name, response.session_id


async def test_a_session_is_told_only_of_what_has_changed(tmp_path):
    bench = FetchBench(tmp_path)
    partitions = [bench.lead(index) for index in range(3)]
    session = opened(bench, *(asked(index) for index in range(3)))
    assert told(bench.fetched(next_of(session, 1))) == []
    append(partitions[1], b"a")
    response = bench.fetched(next_of(session, 2))
    assert (response.session_id, told(response)) == (session, [(1, "NONE", [b"a"])])
    assert told(bench.fetched(next_of(session, 3))) == [(1, "NONE", [b"a"])]
    assert told(bench.fetched(next_of(session, 4, asked(1, offset=1)))) == []


async def test_a_moved_start_or_watermark_is_told_without_records(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a", b"b")
    append(partition, b"c")
    session = opened(bench, asked(offset=3))
    partition.log.advance_start(1)
    response = bench.fetched(next_of(session, 1))
    assert [line.log_start_offset for line in response.responses[0].partitions] == [1]
    assert told(bench.fetched(next_of(session, 2))) == []


async def test_a_reader_of_committed_records_is_told_of_those_that_became_stable(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    session = opened(bench, asked(), isolation_level=1)
    assert told(bench.fetched(next_of(session, 1, isolation_level=1))) == []
    marker = marker_batch(
        EndTransactionMarker(True, 0), timestamp=NOW_MS, producer_id=7, producer_epoch=0
    )
    partition.append(marker, acks=1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    response = bench.fetched(next_of(session, 2, isolation_level=1))
    assert told(response)[0][:2] == (0, "NONE")
    assert told(response)[0][2][0] == b"a"


async def test_a_session_that_comes_to_read_uncommitted_records_is_told_of_them(tmp_path):
    bench = FetchBench(tmp_path)
    open_one = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    append(bench.lead(), b"a", **open_one, is_transactional=True)
    session = opened(bench, asked(), isolation_level=1)
    assert told(bench.fetched(next_of(session, 1, isolation_level=1))) == []
    assert told(bench.fetched(next_of(session, 2))) == [(0, "NONE", [b"a"])]


async def test_an_error_is_told_every_time_and_what_follows_it_too(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(), b"a")
    session = opened(bench, asked(offset=1))
    wrong = next_of(session, 1, asked(offset=9))
    assert errors(bench.fetched(wrong)) == ["OFFSET_OUT_OF_RANGE"]
    assert errors(bench.fetched(next_of(session, 2))) == ["OFFSET_OUT_OF_RANGE"]
    assert errors(bench.fetched(next_of(session, 3, asked(offset=1)))) == ["NONE"]
    assert errors(bench.fetched(next_of(session, 4))) == []


async def test_a_change_of_leader_is_noticed_in_an_idle_session(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    session = opened(bench, asked(), version=10)
    assert errors(bench.fetched(next_of(session, 1), version=10)) == []
    bench.lead(leader=OTHER, replicas=(OTHER, BROKER), epoch=1)
    assert errors(bench.fetched(next_of(session, 2), version=10)) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_an_idle_follower_is_heard_every_time(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead(replicas=(BROKER, OTHER))
    heard = []
    partition.follower_fetched = lambda replica, **progress: heard.append(replica)
    session = opened(bench, asked(), replica_id=OTHER)
    for epoch in (1, 2):
        assert told(bench.fetched(next_of(session, epoch, replica_id=OTHER))) == []
    assert heard == [OTHER] * 3


async def test_partitions_come_and_go(tmp_path):
    bench = FetchBench(tmp_path)
    for index in range(3):
        append(bench.lead(index), b"a")
    session = opened(bench, asked(0), asked(1))
    assert numbers(bench.fetched(next_of(session, 1, asked(2), forgotten=[0, 9]))) == [1, 2]


async def test_a_session_without_partitions_is_over(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    session = opened(bench, asked())
    response = bench.fetched(next_of(session, 1, forgotten=[0]))
    assert (response.error_code, response.session_id) == (0, 0)
    assert len(bench.sessions) == 0


async def test_one_whose_records_went_out_is_read_last_the_next_time(tmp_path):
    bench = FetchBench(tmp_path)
    for index in range(3):
        append(bench.lead(index), b"a" * 100)
    session = opened(bench, *(asked(index, offset=1) for index in range(3)))
    everything = [asked(index) for index in range(3)]
    turns = [
        [number for number, _, values in told(bench.fetched(wanted)) if values]
        for wanted in [
            next_of(session, 1, *everything, max_bytes=1),
            next_of(session, 2, max_bytes=1),
            next_of(session, 3, max_bytes=1),
            next_of(session, 4, max_bytes=1),
        ]
    ]
    assert turns == [[0], [1], [2], [0]]


async def test_a_request_out_of_its_order_is_refused(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    session = opened(bench, asked())
    for epoch in (2, 5):
        refused = bench.fetched(next_of(session, epoch))
        assert error_of(refused) == ("INVALID_FETCH_SESSION_EPOCH", 0)
    assert bench.fetched(next_of(session, 1)).error_code == 0
    assert error_of(bench.fetched(next_of(session, 1))) == ("INVALID_FETCH_SESSION_EPOCH", 0)


async def test_a_session_that_is_not_there_is_refused(tmp_path):
    bench = FetchBench(tmp_path)
    assert error_of(bench.fetched(next_of(7, 1))) == ("FETCH_SESSION_ID_NOT_FOUND", 0)


async def test_a_session_goes_by_ids_or_by_names_and_not_by_both(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(topic_id=AN_ID)
    session = opened(bench, asked(), version=12)
    by_id = next_of(session, 1, topic_id=AN_ID)
    assert error_of(bench.fetched(by_id, version=13)) == ("FETCH_SESSION_TOPIC_ID_ERROR", 0)


async def test_a_topic_whose_id_was_not_known_yet_is_read_once_it_is(tmp_path):
    bench = FetchBench(tmp_path)
    wanted = next_of(0, 0, asked(), topic_id=AN_ID)
    first = bench.fetched(wanted, version=13)
    assert errors(first) == ["UNKNOWN_TOPIC_ID"]
    append(bench.lead(topic_id=AN_ID), b"a")
    response = bench.fetched(next_of(first.session_id, 1, topic_id=AN_ID), version=13)
    assert told(response) == [(0, "NONE", [b"a"])]


async def test_a_topic_made_anew_under_its_name_is_another_in_a_session_by_ids(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(topic_id=AN_ID), b"a")
    session = bench.fetched(next_of(0, 0, asked(), topic_id=AN_ID), version=13).session_id
    bench.hosting.replicas.partition("events", 0).hosted.topic_id = ANOTHER_ID
    wanted = next_of(session, 1, topic_id=AN_ID)
    assert errors(bench.fetched(wanted, version=13)) == ["INCONSISTENT_TOPIC_ID"]


@pytest.mark.parametrize("epoch", [0, -1])
async def test_a_full_fetch_ends_the_session_it_names(tmp_path, epoch):
    bench = FetchBench(tmp_path)
    bench.lead()
    session = opened(bench, asked())
    response = bench.fetched(next_of(session, epoch, asked()))
    assert response.session_id != session
    assert (response.session_id > 0) == (epoch == 0)
    assert error_of(bench.fetched(next_of(session, 1)))[0] == "FETCH_SESSION_ID_NOT_FOUND"


def held_by(bench, session):
    """What was read, and holds files open."""
    return [
        each.line for each in bench.sessions._sessions[session].partitions.values() if each.line
    ]


def waiting_for_more(session, epoch):
    return next_of(session, epoch, asked(), min_bytes=1 << 20, max_wait_ms=60_000)


async def test_a_session_holds_no_file_open_while_a_request_waits_or_after_it_was_cut(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    session = opened(bench, asked())
    append(partition, b"a")
    parked = bench.fetched(waiting_for_more(session, 1))
    assert held_by(bench, session) == []
    waiting = bench.hosting.background.start(in_the_end(parked))
    await asyncio.sleep(0)
    append(partition, b"b")
    await asyncio.sleep(0)
    assert held_by(bench, session) == []
    waiting.cancel()
    await asyncio.wait([waiting])
    assert held_by(bench, session) == []


async def test_nor_after_one_was_cut_in_the_middle_of_reading(tmp_path, monkeypatch):
    bench = FetchBench(tmp_path)
    session = opened(bench, asked(0), asked(1))
    partitions = [bench.lead(number) for number in range(2)]
    for each in partitions:
        append(each, b"a")
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    monkeypatch.setattr(fetch_plan, "FEW", 0)
    wanted = waiting_for_more(session, 1)
    reading = bench.hosting.background.start(in_the_end(bench.fetched(wanted)))
    for _ in range(100):  # turns: it is read once, found wanting, and read again
        if partitions[0].waiting and held_by(bench, session):
            break
        await asyncio.sleep(0)
    assert held_by(bench, session)
    reading.cancel()
    await asyncio.wait([reading])
    assert held_by(bench, session) == []


async def test_nor_after_one_was_refused(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    session = opened(bench, asked())
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(next_of(session, 1, max_wait_ms=60_000)))
    )
    await asyncio.sleep(0)
    bench.fetched(next_of(session, 2))
    append(partition, b"a")
    assert error_of(await waiting)[0] == "INVALID_FETCH_SESSION_EPOCH"
    assert held_by(bench, session) == []


async def test_a_request_that_another_overtook_is_told_so_when_it_has_waited(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    session = opened(bench, asked())
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(next_of(session, 1, max_wait_ms=60_000)))
    )
    await asyncio.sleep(0)
    assert bench.fetched(next_of(session, 2)).error_code == 0
    append(partition, b"a")
    assert error_of(await waiting) == ("INVALID_FETCH_SESSION_EPOCH", session)


async def test_an_idle_session_waits_for_any_of_its_partitions(tmp_path):
    bench = FetchBench(tmp_path)
    partitions = [bench.lead(index) for index in range(3)]
    session = opened(bench, *(asked(index) for index in range(3)))
    bench.fetched(next_of(session, 1))
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(next_of(session, 2, max_wait_ms=60_000)))
    )
    await asyncio.sleep(0)
    append(partitions[2], b"a")
    assert told(await waiting) == [(2, "NONE", [b"a"])]
    bench.fetched(next_of(session, -1))
    assert not any(partition.waiting for partition in partitions)


def test_epochs_pass_over_zero_when_they_wrap_around():
    assert [epoch_after(0), epoch_after(1), epoch_after(2**31 - 1)] == [1, 2, 1]


async def test_no_file_is_held_open_by_an_idle_session(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(), b"a")
    session = opened(bench, asked())
    bench.fetched(next_of(session, 1))
    (known,) = bench.sessions._sessions.values()
    assert [wanted.line for wanted in known.partitions.values()] == [None]


# The slots


def with_session(bench, size, *, replica_id=-1):
    """Of so many partitions; its id, or 0 if there was no slot."""
    wanted = request(*map(asked, range(size)), session_epoch=0, replica_id=replica_id)
    return bench.fetched(wanted).session_id


def is_there(bench, session):
    return session in bench.sessions._sessions


async def full_bench(tmp_path, *sizes, slots=2):
    bench = FetchBench(tmp_path, slots=slots)
    for index in range(5):
        bench.lead(index, replicas=(BROKER, OTHER))
    return bench, [with_session(bench, size) for size in sizes]


async def test_who_gets_no_slot_goes_without_a_session(tmp_path):
    bench, _ = await full_bench(tmp_path, 1, 1)
    assert with_session(bench, 5) == 0
    assert len(bench.sessions) == 2
    assert bench.sessions.partition_count == 2


async def test_without_slots_there_are_no_sessions(tmp_path):
    bench, _ = await full_bench(tmp_path, slots=0)
    assert with_session(bench, 1) == 0


async def test_one_that_was_long_unused_yields_to_anybody(tmp_path):
    bench, (first, second) = await full_bench(tmp_path, 5, 5)
    bench.now_ms += EVICTION_MS
    bench.fetched(next_of(first, 1))
    assert with_session(bench, 1) == 0
    bench.now_ms += 1
    assert with_session(bench, 1) > 0
    assert (is_there(bench, first), is_there(bench, second)) == (True, False)
    assert bench.sessions.evicted_count == 1


async def test_the_smallest_old_one_yields_to_a_larger_one(tmp_path):
    bench, (small, large) = await full_bench(tmp_path, 2, 3)
    bench.now_ms += EVICTION_MS + 1
    for session in (small, large):
        bench.fetched(next_of(session, 1))
    assert with_session(bench, 2) == 0
    assert with_session(bench, 3) > 0
    assert (is_there(bench, small), is_there(bench, large)) == (False, True)


async def test_a_session_that_has_grown_counts_as_large(tmp_path):
    bench, sessions = await full_bench(tmp_path, 1, 1)
    bench.now_ms += EVICTION_MS + 1
    for session in sessions:
        bench.fetched(next_of(session, 1, *map(asked, range(3))))
    assert with_session(bench, 3) == 0
    assert with_session(bench, 4) > 0


async def test_a_follower_drives_out_the_smallest_consumer_however_young(tmp_path):
    bench, (large, small) = await full_bench(tmp_path, 3, 2)
    assert with_session(bench, 1, replica_id=OTHER) > 0
    assert (is_there(bench, small), is_there(bench, large)) == (False, True)


async def test_followers_are_safe_from_consumers_and_from_each_other(tmp_path):
    bench, _ = await full_bench(tmp_path)
    followers = [with_session(bench, 1, replica_id=OTHER) for _ in range(2)]
    assert with_session(bench, 5) == 0
    assert with_session(bench, 5, replica_id=OTHER) == 0
    assert all(is_there(bench, each) for each in followers)
