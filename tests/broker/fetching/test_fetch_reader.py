"""How much is read of which partition, and when a fetch is answered."""

import asyncio
from dataclasses import replace

import pytest

from odradek.broker import turns
from odradek.broker.fetching import fetch_plan
from odradek.broker.fetching.partition_reading import PartitionReading
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.calls import in_the_end
from tests.support.fetches import FetchBench, append, asked, content, errors, lines, request, told
from tests.support.hosted_partitions import BROKER

OTHER = 2


# Limits


async def test_the_first_partition_with_records_yields_a_whole_batch_however_large(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(0)
    for index in (1, 2):
        append(bench.lead(index), b"x" * 1000)
    response = bench.fetched(request(asked(0), asked(1, max_bytes=1), asked(2), max_bytes=1))
    assert told(response) == [(0, "NONE", []), (1, "NONE", [b"x" * 1000]), (2, "NONE", [])]


async def test_later_partitions_get_what_is_left_and_no_part_of_a_batch(tmp_path):
    bench = FetchBench(tmp_path)
    size = append(bench.lead(0), b"x" * 100)
    partition = bench.lead(1)
    append(partition, b"y" * 100)
    append(partition, b"z" * 100)
    for left, read in [(size - 1, []), (size, [b"y" * 100]), (size + 50, [b"y" * 100])]:
        response = bench.fetched(request(asked(0), asked(1), max_bytes=size + left))
        assert told(response)[1] == (1, "NONE", read)


async def test_the_oldest_versions_hear_nothing_of_a_batch_above_their_limit(tmp_path):
    bench = FetchBench(tmp_path)
    size = append(bench.lead(), b"x" * 1000)
    response = await in_the_end(bench.fetched(request(asked(max_bytes=size - 1)), version=2))
    (line,) = lines(response)
    assert content(line) == b""
    assert list(batches_of_any_magic(content(line))) == []


async def test_no_answer_is_larger_than_the_broker_allows(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    size = append(partition, b"x" * 1000)
    append(partition, b"y" * 1000)
    bench.policy = replace(bench.policy, fetch_max_bytes=size)
    assert told(bench.fetched(request(asked()))) == [(0, "NONE", [b"x" * 1000])]


async def test_a_limit_below_zero_is_our_clients_mistake(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead())
    assert errors(bench.fetched(request(asked(max_bytes=-1)))) == ["UNKNOWN_SERVER_ERROR"]


# Waiting


async def test_an_empty_answer_waits_until_something_is_appended(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(0)
    partition = bench.lead(1)
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked(0), asked(1), max_wait_ms=60_000), version=11))
    )
    await asyncio.sleep(0)
    append(partition, b"a")
    assert told(await waiting) == [(0, "NONE", []), (1, "NONE", [b"a"])]
    assert not partition.waiting


async def test_what_is_appended_before_the_waiting_begins_is_not_missed(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    waiting = bench.fetched(request(asked(), max_wait_ms=60_000))
    append(partition, b"a")
    assert told(await waiting) == [(0, "NONE", [b"a"])]


async def test_it_waits_for_as_many_bytes_as_are_asked_for(tmp_path):
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


@pytest.mark.parametrize("few", [100, 0])
async def test_what_has_come_when_the_time_is_over_is_sent(tmp_path, monkeypatch, few):
    monkeypatch.setattr(fetch_plan, "FEW", few)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")
    asking = request(asked(), max_wait_ms=1, min_bytes=1000)
    assert told(await in_the_end(bench.fetched(asking))) == [(0, "NONE", [b"a"])]
    assert not partition.waiting


async def test_a_change_of_leader_ends_the_waiting(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked(), max_wait_ms=60_000), version=10))
    )
    await asyncio.sleep(0)
    bench.lead(leader=OTHER, replicas=(OTHER, BROKER), epoch=1)
    assert errors(await waiting) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_who_is_woken_again_and_again_waits_only_once_at_each_partition(tmp_path):
    bench = FetchBench(tmp_path)
    quiet, busy = bench.lead(0), bench.lead(1)
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked(0), asked(1), max_wait_ms=60_000, min_bytes=10_000)))
    )
    for _ in range(5):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (len(quiet.waiting), len(busy.waiting)) == (1, 1)
        append(busy)
    append(busy, b"x" * 10_000)
    await waiting


async def test_a_cancelled_wait_leaves_nothing_behind(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    waiting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked(), max_wait_ms=60_000)))
    )
    await asyncio.sleep(0)
    assert partition.waiting
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not partition.waiting


async def test_what_fails_while_it_waits_is_told_to_whoever_answers(tmp_path, monkeypatch):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    waiting = bench.fetched(request(asked(), max_wait_ms=60_000))
    monkeypatch.setattr(PartitionReading, "line_of", lambda *_, **__: 1 / 0)
    append(partition)
    with pytest.raises(ZeroDivisionError):
        await waiting
    assert not partition.waiting


@pytest.mark.parametrize(
    "fields",
    [
        {"max_wait_ms": 0},
        {"min_bytes": 0},
        {"max_wait_ms": -1},
    ],
)
async def test_who_wants_nothing_waits_for_nothing(tmp_path, fields):
    bench = FetchBench(tmp_path)
    bench.lead()
    assert told(bench.fetched(request(asked(), **{"max_wait_ms": 60_000, **fields})))


async def test_an_error_is_answered_at_once(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(0)
    bench.lead(1)
    response = bench.fetched(request(asked(0), asked(1, offset=5), max_wait_ms=60_000))
    assert errors(response) == ["NONE", "OFFSET_OUT_OF_RANGE"]


async def test_an_unknown_partition_alone_is_answered_at_once_but_not_beside_others(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead(0)
    unknown = bench.fetched(request(asked(7), max_wait_ms=60_000))
    assert errors(unknown) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    waiting = bench.fetched(request(asked(7), asked(0), max_wait_ms=60_000))
    append(partition, b"a")
    assert told(await waiting) == [(0, "NONE", [b"a"]), (7, "UNKNOWN_TOPIC_OR_PARTITION", [])]


async def test_the_rest_of_a_segment_is_enough_when_there_is_another(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")
    partition.log.roll(now_ms=0)
    append(partition, b"b")
    response = bench.fetched(request(asked(), max_wait_ms=60_000, min_bytes=1000))
    assert told(response) == [(0, "NONE", [b"a"])]


async def test_nothing_is_missed_while_many_partitions_are_read_in_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    bench = FetchBench(tmp_path)
    many = turns.FEW + 1
    first, *_ = [bench.lead(index) for index in range(many)]
    for offset, steps in enumerate((0, 1, many // 2, many, many + many // 2, 3 * many)):
        wanted = request(asked(0, offset), *map(asked, range(1, many)), max_wait_ms=30_000)
        fetching = bench.hosting.background.start(in_the_end(bench.fetched(wanted)))
        for _ in range(steps):
            await asyncio.sleep(0)
        append(first, b"a")
        async with asyncio.timeout(10):
            assert told(await fetching)[0] == (0, "NONE", [b"a"])
    assert not first.waiting
