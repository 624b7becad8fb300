"""Incremental fetch sessions: what a response contains, and which sessions are cached."""

import asyncio

import pytest

from odradek.broker import time_slice
from odradek.broker.fetching import fetch_reader
from odradek.broker.fetching.fetch_session import next_epoch
from odradek.broker.fetching.fetch_session_cache import EVICTION_MS
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.types import Uuid
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from tests.support.calls import in_the_end
from tests.support.fetches import FetchBench, append, asked, errors, numbers, request, told
from tests.support.hosted_partitions import BROKER
from tests.support.logs import NOW_MS

FOLLOWER = 2
AN_ID, ANOTHER_ID = Uuid(bytes([1] * 16)), Uuid(bytes([2] * 16))


def open_session(bench, *partitions, version=12, **fields):
    """Returns the id of a new session."""
    response = bench.fetched(request(*partitions, session_epoch=0, **fields), version=version)
    assert response.session_id > 0
    return response.session_id


def next_fetch(session, epoch, *partitions, forgotten=(), topic_id=None, **fields):
    fetch_request = request(*partitions, session_id=session, session_epoch=epoch, **fields)
    if forgotten:
        forgotten_topic = FetchRequest.ForgottenTopic(topic="events", partitions=list(forgotten))
        fetch_request.forgotten_topics_data = [forgotten_topic]
    if topic_id is not None:
        for topic in [*fetch_request.topics, *fetch_request.forgotten_topics_data]:
            topic.topic, topic.topic_id = "", topic_id
    return fetch_request


def error_of(response):
    assert not response.responses
    return ErrorCode.for_code(response.error_code).name, response.session_id


async def test_response_has_only_changed_partitions(tmp_path):
    bench = FetchBench(tmp_path)
    partitions = [bench.lead(index) for index in range(3)]
    session = open_session(bench, *(asked(index) for index in range(3)))
    assert told(bench.fetched(next_fetch(session, 1))) == []
    append(partitions[1], b"a")
    response = bench.fetched(next_fetch(session, 2))
    assert (response.session_id, told(response)) == (session, [(1, "NONE", [b"a"])])
    assert told(bench.fetched(next_fetch(session, 3))) == [(1, "NONE", [b"a"])]
    assert told(bench.fetched(next_fetch(session, 4, asked(1, offset=1)))) == []


async def test_moved_start_offset_is_sent_without_records(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a", b"b")
    append(partition, b"c")
    session = open_session(bench, asked(offset=3))
    partition.log.maybe_increment_log_start_offset(1)
    response = bench.fetched(next_fetch(session, 1))
    assert [
        partition_response.log_start_offset
        for partition_response in response.responses[0].partitions
    ] == [1]
    assert told(bench.fetched(next_fetch(session, 2))) == []


async def test_read_committed_session_gets_records_that_became_stable(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    session = open_session(bench, asked(), isolation_level=1)
    assert told(bench.fetched(next_fetch(session, 1, isolation_level=1))) == []
    marker = build_marker_batch(
        EndTransactionMarker(True, 0), timestamp=NOW_MS, producer_id=7, producer_epoch=0
    )
    partition.append(marker, acks=1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    response = bench.fetched(next_fetch(session, 2, isolation_level=1))
    assert told(response)[0][:2] == (0, "NONE")
    assert told(response)[0][2][0] == b"a"


async def test_session_that_switches_to_read_uncommitted_gets_open_transactions(tmp_path):
    bench = FetchBench(tmp_path)
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    append(bench.lead(), b"a", **producer, is_transactional=True)
    session = open_session(bench, asked(), isolation_level=1)
    assert told(bench.fetched(next_fetch(session, 1, isolation_level=1))) == []
    assert told(bench.fetched(next_fetch(session, 2))) == [(0, "NONE", [b"a"])]


async def test_error_is_sent_every_time_and_so_is_the_next_success(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(), b"a")
    session = open_session(bench, asked(offset=1))
    out_of_range = next_fetch(session, 1, asked(offset=9))
    assert errors(bench.fetched(out_of_range)) == ["OFFSET_OUT_OF_RANGE"]
    assert errors(bench.fetched(next_fetch(session, 2))) == ["OFFSET_OUT_OF_RANGE"]
    assert errors(bench.fetched(next_fetch(session, 3, asked(offset=1)))) == ["NONE"]
    assert errors(bench.fetched(next_fetch(session, 4))) == []


async def test_change_of_leader_is_sent_to_an_idle_session(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    session = open_session(bench, asked(), version=10)
    assert errors(bench.fetched(next_fetch(session, 1), version=10)) == []
    bench.lead(leader=FOLLOWER, replicas=(FOLLOWER, BROKER), epoch=1)
    assert errors(bench.fetched(next_fetch(session, 2), version=10)) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_every_fetch_of_an_idle_follower_updates_its_state(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead(replicas=(BROKER, FOLLOWER))
    fetching_replicas = []
    partition.update_follower_fetch_state = lambda replica, **state: fetching_replicas.append(
        replica
    )
    session = open_session(bench, asked(), replica_id=FOLLOWER)
    for epoch in (1, 2):
        assert told(bench.fetched(next_fetch(session, epoch, replica_id=FOLLOWER))) == []
    assert fetching_replicas == [FOLLOWER] * 3


async def test_partitions_are_added_and_forgotten(tmp_path):
    bench = FetchBench(tmp_path)
    for index in range(3):
        append(bench.lead(index), b"a")
    session = open_session(bench, asked(0), asked(1))
    assert numbers(bench.fetched(next_fetch(session, 1, asked(2), forgotten=[0, 9]))) == [1, 2]


async def test_session_without_partitions_is_closed(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    session = open_session(bench, asked())
    response = bench.fetched(next_fetch(session, 1, forgotten=[0]))
    assert (response.error_code, response.session_id) == (0, 0)
    assert len(bench.sessions) == 0


async def test_partition_with_sent_records_is_read_last_the_next_time(tmp_path):
    bench = FetchBench(tmp_path)
    for index in range(3):
        append(bench.lead(index), b"a" * 100)
    session = open_session(bench, *(asked(index, offset=1) for index in range(3)))
    all_partitions = [asked(index) for index in range(3)]
    partitions_with_records = [
        [number for number, _, values in told(bench.fetched(fetch_request)) if values]
        for fetch_request in [
            next_fetch(session, 1, *all_partitions, max_bytes=1),
            next_fetch(session, 2, max_bytes=1),
            next_fetch(session, 3, max_bytes=1),
            next_fetch(session, 4, max_bytes=1),
        ]
    ]
    assert partitions_with_records == [[0], [1], [2], [0]]


async def test_fetch_with_wrong_epoch_is_rejected(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    session = open_session(bench, asked())
    for epoch in (2, 5):
        response = bench.fetched(next_fetch(session, epoch))
        assert error_of(response) == ("INVALID_FETCH_SESSION_EPOCH", 0)
    assert bench.fetched(next_fetch(session, 1)).error_code == 0
    assert error_of(bench.fetched(next_fetch(session, 1))) == ("INVALID_FETCH_SESSION_EPOCH", 0)


async def test_unknown_session_is_rejected(tmp_path):
    bench = FetchBench(tmp_path)
    assert error_of(bench.fetched(next_fetch(7, 1))) == ("FETCH_SESSION_ID_NOT_FOUND", 0)


async def test_session_uses_topic_ids_or_names_but_not_both(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(topic_id=AN_ID)
    session = open_session(bench, asked(), version=12)
    by_id = next_fetch(session, 1, topic_id=AN_ID)
    assert error_of(bench.fetched(by_id, version=13)) == ("FETCH_SESSION_TOPIC_ID_ERROR", 0)


async def test_topic_with_unknown_id_is_read_when_it_is_known(tmp_path):
    bench = FetchBench(tmp_path)
    fetch_request = next_fetch(0, 0, asked(), topic_id=AN_ID)
    first = bench.fetched(fetch_request, version=13)
    assert errors(first) == ["UNKNOWN_TOPIC_ID"]
    append(bench.lead(topic_id=AN_ID), b"a")
    response = bench.fetched(next_fetch(first.session_id, 1, topic_id=AN_ID), version=13)
    assert told(response) == [(0, "NONE", [b"a"])]


async def test_recreated_topic_is_inconsistent_in_a_session_with_topic_ids(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(topic_id=AN_ID), b"a")
    session = bench.fetched(next_fetch(0, 0, asked(), topic_id=AN_ID), version=13).session_id
    bench.hosting.replicas.partition("events", 0).hosted_log.topic_id = ANOTHER_ID
    fetch_request = next_fetch(session, 1, topic_id=AN_ID)
    assert errors(bench.fetched(fetch_request, version=13)) == ["INCONSISTENT_TOPIC_ID"]


@pytest.mark.parametrize("epoch", [0, -1])
async def test_full_fetch_closes_the_session_that_it_names(tmp_path, epoch):
    bench = FetchBench(tmp_path)
    bench.lead()
    session = open_session(bench, asked())
    response = bench.fetched(next_fetch(session, epoch, asked()))
    assert response.session_id != session
    assert (response.session_id > 0) == (epoch == 0)
    assert error_of(bench.fetched(next_fetch(session, 1)))[0] == "FETCH_SESSION_ID_NOT_FOUND"


def cached_responses(bench, session):
    """Returns the partition responses that hold files open."""
    return [
        fetch_partition.partition_response
        for fetch_partition in bench.sessions._sessions[session].partitions.values()
        if fetch_partition.partition_response
    ]


def long_poll(session, epoch):
    return next_fetch(session, epoch, asked(), min_bytes=1 << 20, max_wait_ms=60_000)


async def test_session_holds_no_file_open_while_a_fetch_waits_or_after_it_is_cancelled(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    session = open_session(bench, asked())
    append(partition, b"a")
    delayed = bench.fetched(long_poll(session, 1))
    assert cached_responses(bench, session) == []
    waiting = bench.hosting.background.start(in_the_end(delayed))
    await asyncio.sleep(0)
    append(partition, b"b")
    await asyncio.sleep(0)
    assert cached_responses(bench, session) == []
    waiting.cancel()
    await asyncio.wait([waiting])
    assert cached_responses(bench, session) == []


async def test_session_holds_no_file_open_after_a_fetch_is_cancelled_during_its_read(
    tmp_path, monkeypatch
):
    bench = FetchBench(tmp_path)
    session = open_session(bench, asked(0), asked(1))
    partitions = [bench.lead(number) for number in range(2)]
    for partition in partitions:
        append(partition, b"a")
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    monkeypatch.setattr(fetch_reader, "INLINE_ENTRIES_MAX", 0)
    fetch_request = long_poll(session, 1)
    reading = bench.hosting.background.start(in_the_end(bench.fetched(fetch_request)))
    for _ in range(
        100
    ):  # loop iterations: the partitions are read, have too few bytes, and are read again
        if partitions[0].fetch_watchers and cached_responses(bench, session):
            break
        await asyncio.sleep(0)
    assert cached_responses(bench, session)
    reading.cancel()
    await asyncio.wait([reading])
    assert cached_responses(bench, session) == []


async def test_session_holds_no_file_open_after_a_fetch_is_rejected(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    session = open_session(bench, asked())
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(next_fetch(session, 1, max_wait_ms=60_000)))
    )
    await asyncio.sleep(0)
    bench.fetched(next_fetch(session, 2))
    append(partition, b"a")
    assert error_of(await waiting)[0] == "INVALID_FETCH_SESSION_EPOCH"
    assert cached_responses(bench, session) == []


async def test_waiting_fetch_is_rejected_if_another_fetch_overtook_it(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    session = open_session(bench, asked())
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(next_fetch(session, 1, max_wait_ms=60_000)))
    )
    await asyncio.sleep(0)
    assert bench.fetched(next_fetch(session, 2)).error_code == 0
    append(partition, b"a")
    assert error_of(await waiting) == ("INVALID_FETCH_SESSION_EPOCH", session)


async def test_fetch_of_an_idle_session_waits_for_any_of_its_partitions(tmp_path):
    bench = FetchBench(tmp_path)
    partitions = [bench.lead(index) for index in range(3)]
    session = open_session(bench, *(asked(index) for index in range(3)))
    bench.fetched(next_fetch(session, 1))
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(next_fetch(session, 2, max_wait_ms=60_000)))
    )
    await asyncio.sleep(0)
    append(partitions[2], b"a")
    assert told(await waiting) == [(2, "NONE", [b"a"])]
    bench.fetched(next_fetch(session, -1))
    assert not any(partition.fetch_watchers for partition in partitions)


def test_epoch_skips_zero_when_it_wraps_around():
    assert [next_epoch(0), next_epoch(1), next_epoch(2**31 - 1)] == [1, 2, 1]


async def test_idle_session_holds_no_file_open(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(), b"a")
    session = open_session(bench, asked())
    bench.fetched(next_fetch(session, 1))
    (cached,) = bench.sessions._sessions.values()
    assert [
        fetch_partition.partition_response for fetch_partition in cached.partitions.values()
    ] == [None]


# The slots


def session_id_of(bench, size, *, replica_id=-1):
    """Returns the id of a session with so many partitions, or 0 if there is no slot."""
    fetch_request = request(*map(asked, range(size)), session_epoch=0, replica_id=replica_id)
    return bench.fetched(fetch_request).session_id


def is_cached(bench, session):
    return session in bench.sessions._sessions


async def full_bench(tmp_path, *sizes, slots=2):
    bench = FetchBench(tmp_path, slots=slots)
    for index in range(5):
        bench.lead(index, replicas=(BROKER, FOLLOWER))
    return bench, [session_id_of(bench, size) for size in sizes]


async def test_fetch_without_a_free_slot_gets_no_session(tmp_path):
    bench, _ = await full_bench(tmp_path, 1, 1)
    assert session_id_of(bench, 5) == 0
    assert len(bench.sessions) == 2
    assert bench.sessions.partition_count == 2


async def test_cache_without_slots_has_no_sessions(tmp_path):
    bench, _ = await full_bench(tmp_path, slots=0)
    assert session_id_of(bench, 1) == 0


async def test_session_unused_for_long_is_evicted_by_any_other(tmp_path):
    bench, (first, second) = await full_bench(tmp_path, 5, 5)
    bench.now_ms += EVICTION_MS
    bench.fetched(next_fetch(first, 1))
    assert session_id_of(bench, 1) == 0
    bench.now_ms += 1
    assert session_id_of(bench, 1) > 0
    assert (is_cached(bench, first), is_cached(bench, second)) == (True, False)
    assert bench.sessions.evicted_count == 1


async def test_smallest_old_session_is_evicted_by_a_larger_one(tmp_path):
    bench, (small, large) = await full_bench(tmp_path, 2, 3)
    bench.now_ms += EVICTION_MS + 1
    for session in (small, large):
        bench.fetched(next_fetch(session, 1))
    assert session_id_of(bench, 2) == 0
    assert session_id_of(bench, 3) > 0
    assert (is_cached(bench, small), is_cached(bench, large)) == (False, True)


async def test_session_that_has_grown_counts_as_large(tmp_path):
    bench, sessions = await full_bench(tmp_path, 1, 1)
    bench.now_ms += EVICTION_MS + 1
    for session in sessions:
        bench.fetched(next_fetch(session, 1, *map(asked, range(3))))
    assert session_id_of(bench, 3) == 0
    assert session_id_of(bench, 4) > 0


async def test_follower_evicts_the_smallest_consumer_of_any_age(tmp_path):
    bench, (large, small) = await full_bench(tmp_path, 3, 2)
    assert session_id_of(bench, 1, replica_id=FOLLOWER) > 0
    assert (is_cached(bench, small), is_cached(bench, large)) == (False, True)


async def test_follower_sessions_are_not_evicted_by_consumers_or_followers(tmp_path):
    bench, _ = await full_bench(tmp_path)
    followers = [session_id_of(bench, 1, replica_id=FOLLOWER) for _ in range(2)]
    assert session_id_of(bench, 5) == 0
    assert session_id_of(bench, 5, replica_id=FOLLOWER) == 0
    assert all(is_cached(bench, session) for session in followers)
