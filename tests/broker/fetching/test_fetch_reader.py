"""How much a fetch reads of each partition, and when it completes."""

import asyncio
from dataclasses import replace

import pytest

from odradek.broker import time_slice
from odradek.broker.fetching import fetch_reader
from odradek.broker.fetching.partition_reader import PartitionReader
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.calls import in_the_end
from tests.support.fetches import FetchBench, append, asked, content, errors, lines, request, told
from tests.support.hosted_partitions import BROKER

OTHER_BROKER = 2


# Limits


async def test_first_partition_with_records_returns_a_whole_batch_of_any_size(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(0)
    for index in (1, 2):
        append(bench.lead(index), b"x" * 1000)
    response = bench.fetched(request(asked(0), asked(1, max_bytes=1), asked(2), max_bytes=1))
    assert told(response) == [(0, "NONE", []), (1, "NONE", [b"x" * 1000]), (2, "NONE", [])]


async def test_later_partitions_get_the_remaining_bytes_and_no_partial_batch(tmp_path):
    bench = FetchBench(tmp_path)
    size = append(bench.lead(0), b"x" * 100)
    partition = bench.lead(1)
    append(partition, b"y" * 100)
    append(partition, b"z" * 100)
    for remaining, expected in [(size - 1, []), (size, [b"y" * 100]), (size + 50, [b"y" * 100])]:
        response = bench.fetched(request(asked(0), asked(1), max_bytes=size + remaining))
        assert told(response)[1] == (1, "NONE", expected)


async def test_oldest_versions_get_nothing_of_a_batch_above_their_limit(tmp_path):
    bench = FetchBench(tmp_path)
    size = append(bench.lead(), b"x" * 1000)
    response = await in_the_end(bench.fetched(request(asked(max_bytes=size - 1)), version=2))
    (partition_response,) = lines(response)
    assert content(partition_response) == b""
    assert list(batches_of_any_magic(content(partition_response))) == []


async def test_response_is_limited_by_fetch_max_bytes(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    size = append(partition, b"x" * 1000)
    append(partition, b"y" * 1000)
    bench.policy = replace(bench.policy, fetch_max_bytes=size)
    assert told(bench.fetched(request(asked()))) == [(0, "NONE", [b"x" * 1000])]


async def test_negative_limit_is_an_error(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead())
    assert errors(bench.fetched(request(asked(max_bytes=-1)))) == ["UNKNOWN_SERVER_ERROR"]


# Waiting


async def test_fetch_waits_until_records_are_appended(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(0)
    partition = bench.lead(1)
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked(0), asked(1), max_wait_ms=60_000), version=11))
    )
    await asyncio.sleep(0)
    append(partition, b"a")
    assert told(await waiting) == [(0, "NONE", []), (1, "NONE", [b"a"])]
    assert not partition.fetch_watchers


async def test_records_appended_before_the_wait_are_not_missed(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    waiting = bench.fetched(request(asked(), max_wait_ms=60_000))
    append(partition, b"a")
    assert told(await waiting) == [(0, "NONE", [b"a"])]


async def test_fetch_waits_for_min_bytes(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    size = append(partition, b"x" * 100)
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked(), max_wait_ms=60_000, min_bytes=3 * size)))
    )
    for _ in range(2):
        await asyncio.sleep(0)
        assert not waiting.done()
        append(partition, b"x" * 100)
    assert len(told(await waiting)[0][2]) == 3


@pytest.mark.parametrize("inline_entries_max", [100, 0])
async def test_available_records_are_sent_at_the_timeout(tmp_path, monkeypatch, inline_entries_max):
    monkeypatch.setattr(fetch_reader, "INLINE_ENTRIES_MAX", inline_entries_max)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")
    fetch_request = request(asked(), max_wait_ms=1, min_bytes=1000)
    assert told(await in_the_end(bench.fetched(fetch_request))) == [(0, "NONE", [b"a"])]
    assert not partition.fetch_watchers


async def test_change_of_leader_completes_the_fetch(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked(), max_wait_ms=60_000), version=10))
    )
    await asyncio.sleep(0)
    bench.lead(leader=OTHER_BROKER, replicas=(OTHER_BROKER, BROKER), epoch=1)
    assert errors(await waiting) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_fetch_that_wakes_repeatedly_is_registered_once_per_partition(tmp_path):
    bench = FetchBench(tmp_path)
    idle, busy = bench.lead(0), bench.lead(1)
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked(0), asked(1), max_wait_ms=60_000, min_bytes=10_000)))
    )
    for _ in range(5):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (len(idle.fetch_watchers), len(busy.fetch_watchers)) == (1, 1)
        append(busy)
    append(busy, b"x" * 10_000)
    await waiting


async def test_cancelled_fetch_leaves_nothing_behind(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked(), max_wait_ms=60_000)))
    )
    await asyncio.sleep(0)
    assert partition.fetch_watchers
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not partition.fetch_watchers


async def test_error_of_a_waiting_fetch_is_raised_to_its_awaiter(tmp_path, monkeypatch):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    waiting = bench.fetched(request(asked(), max_wait_ms=60_000))
    monkeypatch.setattr(PartitionReader, "read", lambda *_, **__: 1 / 0)
    append(partition)
    with pytest.raises(ZeroDivisionError):
        await waiting
    assert not partition.fetch_watchers


@pytest.mark.parametrize(
    "fields",
    [
        {"max_wait_ms": 0},
        {"min_bytes": 0},
        {"max_wait_ms": -1},
    ],
)
async def test_fetch_without_min_bytes_or_wait_time_completes_at_once(tmp_path, fields):
    bench = FetchBench(tmp_path)
    bench.lead()
    assert told(bench.fetched(request(asked(), **{"max_wait_ms": 60_000, **fields})))


async def test_error_completes_the_fetch_at_once(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(0)
    bench.lead(1)
    response = bench.fetched(request(asked(0), asked(1, offset=5), max_wait_ms=60_000))
    assert errors(response) == ["NONE", "OFFSET_OUT_OF_RANGE"]


async def test_unknown_partition_completes_the_fetch_at_once_only_if_it_is_alone(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead(0)
    unknown = bench.fetched(request(asked(7), max_wait_ms=60_000))
    assert errors(unknown) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    waiting = bench.fetched(request(asked(7), asked(0), max_wait_ms=60_000))
    append(partition, b"a")
    assert told(await waiting) == [(0, "NONE", [b"a"]), (7, "UNKNOWN_TOPIC_OR_PARTITION", [])]


async def test_rest_of_a_segment_completes_the_fetch(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")
    partition.log.roll(now_ms=0)
    append(partition, b"b")
    response = bench.fetched(request(asked(), max_wait_ms=60_000, min_bytes=1000))
    assert told(response) == [(0, "NONE", [b"a"])]


async def test_records_appended_during_a_read_in_time_slices_are_not_missed(tmp_path, monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    bench = FetchBench(tmp_path)
    many = time_slice.INLINE_ENTRIES_MAX + 1
    first, *_ = [bench.lead(index) for index in range(many)]
    for offset, steps in enumerate((0, 1, many // 2, many, many + many // 2, 3 * many)):
        fetch_request = request(asked(0, offset), *map(asked, range(1, many)), max_wait_ms=30_000)
        fetching = bench.hosting.background.start(in_the_end(bench.fetched(fetch_request)))
        for _ in range(steps):
            await asyncio.sleep(0)
        append(first, b"a")
        async with asyncio.timeout(10):
            assert told(await fetching)[0] == (0, "NONE", [b"a"])
    assert not first.fetch_watchers
