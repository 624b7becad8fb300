"""Fetch: what is read, how much of it, and when it is answered."""

import errno
from types import SimpleNamespace

import pytest

from odradek.broker.fetching import partition_reading
from odradek.broker.handlers import fetch
from odradek.broker.metadata.picture import Node
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.codec import decode, encode
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import Uuid
from tests.support.calls import called, in_the_end
from tests.support.fetches import (
    FetchBench,
    append,
    asked,
    errors,
    lines,
    numbers,
    request,
    told,
)
from tests.support.hosted_partitions import BROKER
from tests.support.logs import end_transaction

OTHER = 2
AN_ID, ANOTHER_ID = Uuid(bytes([1] * 16)), Uuid(bytes([2] * 16))
ALL_VERSIONS = range(
    FetchRequest.__schema__.versions.low, FetchRequest.__schema__.versions.high + 1
)
READ_COMMITTED = 1


# What is read


async def test_a_consumer_reads_from_its_offset_on(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a", b"b")
    append(partition, b"c")
    response = bench.fetched(request(asked(offset=2)))
    assert told(response) == [(0, "NONE", [b"c"])]
    (line,) = lines(response)
    assert isinstance(line.records, FileRegion)
    assert (line.high_watermark, line.last_stable_offset, line.log_start_offset) == (3, 3, 0)
    assert (line.aborted_transactions, line.preferred_read_replica) == (None, -1)


@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_every_version_is_answered(tmp_path, version):
    bench = FetchBench(tmp_path)
    append(bench.lead(topic_id=AN_ID), b"a")
    has_ids = version >= 13
    wanted = request(asked(), topic="" if has_ids else "events")
    if has_ids:
        wanted.topics[0].topic_id = AN_ID
    wanted = decode(FetchRequest, version, b"".join(encode(wanted, version)))
    response = await in_the_end(bench.fetched(wanted, version=version))
    assert told(response) == [(0, "NONE", [b"a"])]
    assert encode(response, version)


async def test_each_partition_succeeds_or_fails_alone(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(0))
    bench.lead(1, leader=OTHER, replicas=(OTHER, BROKER))
    append(bench.lead(3))
    wanted = request(asked(0), asked(7), asked(1), asked(3), asked(0, offset=9))
    response = bench.fetched(wanted, version=10)
    assert told(response) == [
        (0, "OFFSET_OUT_OF_RANGE", []),
        (1, "NOT_LEADER_OR_FOLLOWER", []),
        (3, "NONE", [b"v"]),
        (7, "UNKNOWN_TOPIC_OR_PARTITION", []),
    ]
    assert [line.high_watermark for line in lines(response)] == [-1, -1, 1, -1]


@pytest.mark.parametrize(("offset", "error"), [(0, 1), (1, 1), (2, 0), (4, 0), (5, 0), (6, 1)])
async def test_only_offsets_of_the_log_can_be_read(tmp_path, offset, error):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    for _ in range(5):
        append(partition)
    partition.log.advance_start(2)
    (line,) = lines(bench.fetched(request(asked(offset=offset))))
    assert line.error_code == error


async def test_consumers_read_up_to_the_high_watermark_and_followers_to_the_end(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead(replicas=(BROKER, OTHER))
    append(partition, b"a")
    assert told(bench.fetched(request(asked()))) == [(0, "NONE", [])]
    beyond = bench.fetched(request(asked(offset=1)))
    assert told(beyond) == [(0, "NONE", [])]
    assert told(bench.fetched(request(asked(), replica_id=OTHER))) == [(0, "NONE", [b"a"])]


async def test_what_a_follower_asks_for_tells_what_it_has(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead(replicas=(BROKER, OTHER))
    append(partition, b"a")
    bench.fetched(request(asked(offset=1), replica_id=OTHER))
    assert partition.log.high_watermark == 1
    assert told(bench.fetched(request(asked()))) == [(0, "NONE", [b"a"])]


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, "NOT_LEADER_OR_FOLLOWER"), (0, "UNKNOWN_LEADER_EPOCH")]
)
async def test_a_follower_that_is_not_known_has_to_ask_again(tmp_path, epoch, error):
    bench = FetchBench(tmp_path)
    bench.lead()
    wanted = request(asked(current_leader_epoch=epoch), replica_id=OTHER)
    assert errors(bench.fetched(wanted)) == [error]


async def test_new_versions_name_the_follower_elsewhere(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(replicas=(BROKER, OTHER), topic_id=AN_ID), b"a")
    wanted = request(asked(), replica_state=FetchRequest.ReplicaState(replica_id=OTHER))
    wanted.topics[0].topic_id = AN_ID
    assert told(bench.fetched(wanted, version=15)) == [(0, "NONE", [b"a"])]


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-2, "NONE"),
        (-1, "NONE"),
        (4, "FENCED_LEADER_EPOCH"),
        (5, "NONE"),
        (6, "UNKNOWN_LEADER_EPOCH"),
    ],
)
async def test_the_readers_leader_epoch_is_checked(tmp_path, epoch, error):
    bench = FetchBench(tmp_path)
    bench.lead(epoch=5)
    assert errors(bench.fetched(request(asked(current_leader_epoch=epoch)))) == [error]


async def test_consumers_that_know_of_it_may_read_from_followers(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(leader=OTHER, replicas=(OTHER, BROKER))
    assert errors(bench.fetched(request(asked()), version=10)) == ["NOT_LEADER_OR_FOLLOWER"]
    assert errors(bench.fetched(request(asked()), version=11)) == ["NONE"]
    wanted = request(asked(), replica_id=OTHER)
    assert errors(bench.fetched(wanted, version=11)) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_old_clients_are_not_told_of_failed_disks(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    partition.hosted.directory.fail(OSError("broken"), "a test")
    for version, error in [(5, "NOT_LEADER_OR_FOLLOWER"), (6, "KAFKA_STORAGE_ERROR")]:
        assert errors(bench.fetched(request(asked()), version=version)) == [error]


async def test_a_disk_that_fails_as_batches_are_measured_fails_its_partitions_alone(
    tmp_path, monkeypatch
):
    bench = FetchBench(tmp_path)
    for index in range(2):
        append(bench.lead(index), b"a")

    def fail(*_):
        raise OSError(errno.EIO, "it cannot be read")

    monkeypatch.setattr(partition_reading, "files", SimpleNamespace(read_at=fail))
    response = bench.fetched(request(asked(0), asked(1)), version=6)
    assert errors(response) == ["NONE", "KAFKA_STORAGE_ERROR"]


async def test_a_log_in_doubt_is_not_read_even_where_it_is_empty(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead().hosted.is_in_doubt = True
    assert errors(bench.fetched(request(asked()))) == ["KAFKA_STORAGE_ERROR"]


# Transactions


async def test_committed_reads_end_before_the_first_open_transaction(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")
    append(partition, b"b", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    wanted = request(asked(), isolation_level=READ_COMMITTED)
    assert told(bench.fetched(wanted)) == [(0, "NONE", [b"a"])]
    assert lines(bench.fetched(wanted))[0].last_stable_offset == 1
    assert told(bench.fetched(request(asked()))) == [(0, "NONE", [b"a", b"b"])]


async def test_committed_reads_name_the_aborted_transactions_they_reach_into(tmp_path):
    bench = FetchBench(tmp_path, index_interval_bytes=1)
    partition = bench.lead()
    for producer in (7, 8):
        append(
            partition,
            b"b",
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        end_transaction(partition.log, producer_id=producer, commit=False)
    wanted = request(asked(), isolation_level=READ_COMMITTED)
    (line,) = lines(bench.fetched(wanted))
    assert [(each.producer_id, each.first_offset) for each in line.aborted_transactions] == [
        (7, 0),
        (8, 2),
    ]
    wanted = request(asked(max_bytes=1), isolation_level=READ_COMMITTED)
    (line,) = lines(bench.fetched(wanted))
    assert [each.producer_id for each in line.aborted_transactions] == [7]
    wanted = request(asked(offset=4), isolation_level=READ_COMMITTED)
    assert lines(bench.fetched(wanted))[0].aborted_transactions == []


# Topic ids


def by_id(topic_id, *partitions, **fields):
    wanted = request(*partitions, topic="", **fields)
    wanted.topics[0].topic_id = topic_id
    return wanted


async def test_topics_are_found_by_their_ids(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(topic_id=AN_ID), b"a")
    response = bench.fetched(by_id(AN_ID, asked()), version=13)
    assert told(response) == [(0, "NONE", [b"a"])]
    assert response.responses[0].topic_id == AN_ID
    unknown = bench.fetched(by_id(ANOTHER_ID, asked()), version=13)
    assert errors(unknown) == ["UNKNOWN_TOPIC_ID"]
    assert unknown.responses[0].topic_id == ANOTHER_ID


async def test_an_id_that_is_not_the_logs_is_refused(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(topic_id=AN_ID)
    bench.hosting.known.names[ANOTHER_ID] = "events"
    response = bench.fetched(by_id(ANOTHER_ID, asked()), version=13)
    assert errors(response) == ["INCONSISTENT_TOPIC_ID"]


# Diverging epochs


async def diverged(tmp_path):
    """Epochs 1 and 3, which begin at 0 and 2; the log ends at 3."""
    bench = FetchBench(tmp_path)
    partition = bench.lead(epoch=1)
    append(partition, b"a", b"b")
    bench.lead(epoch=3)
    append(partition, b"c")
    return bench


@pytest.mark.parametrize(
    ("last_epoch", "offset", "diverging"),
    [
        (3, 3, (-1, -1)),
        (1, 2, (-1, -1)),
        (1, 3, (1, 2)),
        (2, 3, (1, 2)),
        (2, 2, (1, 2)),
    ],
)
async def test_a_reader_with_other_records_is_told_where_to_cut(
    tmp_path, last_epoch, offset, diverging
):
    bench = await diverged(tmp_path)
    wanted = request(asked(offset=offset, last_fetched_epoch=last_epoch), max_wait_ms=0)
    (line,) = lines(bench.fetched(wanted))
    assert (line.diverging_epoch.epoch, line.diverging_epoch.end_offset) == diverging
    assert line.error_code == 0


async def test_an_epoch_that_is_newer_than_all_is_out_of_range(tmp_path):
    bench = await diverged(tmp_path)
    wanted = request(asked(offset=3, last_fetched_epoch=4))
    assert errors(bench.fetched(wanted)) == ["OFFSET_OUT_OF_RANGE"]


# Hints


async def test_who_asks_the_wrong_broker_is_told_of_the_leader(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(0, leader=OTHER, replicas=(OTHER, BROKER), epoch=4, topic_id=AN_ID)
    bench.cluster.brokers[OTHER] = Node(OTHER, "there", 9092, "r")
    wanted = by_id(AN_ID, asked(0, current_leader_epoch=3))
    response = bench.fetched(wanted, version=16)
    (line,) = lines(response)
    assert ErrorCode.of(line.error_code).name == "FENCED_LEADER_EPOCH"
    assert (line.current_leader.leader_id, line.current_leader.leader_epoch) == (OTHER, 4)
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (
        OTHER,
        "there",
        9092,
        "r",
    )
    assert encode(response, 16)
    older = bench.fetched(by_id(AN_ID, asked(0, current_leader_epoch=3)), version=15)
    assert lines(older)[0].current_leader.leader_id == -1
    assert not older.node_endpoints


async def test_a_partition_that_is_not_here_is_looked_up_in_the_picture(tmp_path):
    bench = FetchBench(tmp_path)
    bench.hosting.known.partitions.add(("events", 5))
    bench.hosting.known.names[AN_ID] = "events"
    bench.cluster.leaders["events", 5] = SimpleNamespace(leader=OTHER, leader_epoch=8)
    (line,) = lines(bench.fetched(by_id(AN_ID, asked(5)), version=16))
    assert ErrorCode.of(line.error_code).name == "NOT_LEADER_OR_FOLLOWER"
    assert (line.current_leader.leader_id, line.current_leader.leader_epoch) == (OTHER, 8)


# Refusals


@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_a_refusal_of_all_reaches_clients_of_every_version(version):
    wanted = request(asked(3), asked(4), session_id=77)
    response = fetch.refused(called(wanted, version=version), KafkaStorageError())
    assert response.error_code == KafkaStorageError.error.code
    assert list(numbers(response)) == ([3, 4] if version < 13 else [])
    if version < 7:
        response.session_id = 0
    assert decode(FetchResponse, version, b"".join(encode(response, version)))


async def test_an_answer_groups_neighbours_of_one_topic(tmp_path):
    bench = FetchBench(tmp_path)
    for topic, partition in [("a", 0), ("b", 0), ("a", 1), ("a", 2)]:
        bench.hosting.lead(topic, partition)
    wanted = request(asked(0), topic="a")
    wanted.topics += request(asked(0), topic="b").topics
    wanted.topics += request(asked(1), asked(2), topic="a").topics
    response = bench.fetched(wanted)
    assert [(each.topic, len(each.partitions)) for each in response.responses] == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
    ]


# Throttled followers


async def test_a_throttled_follower_gets_nothing_more_once_the_rate_is_exceeded(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead(replicas=(BROKER, OTHER), in_sync=[BROKER])
    size = append(partition, b"a")
    bench.throttle.configure("events", ("0:1",), broker_id=BROKER)
    bench.throttle.rate.limit = size - 1
    wanted = request(asked(log_start_offset=0), replica_id=OTHER)
    assert told(bench.fetched(wanted)) == [(0, "NONE", [b"a"])]
    assert told(bench.fetched(wanted)) == [(0, "NONE", [])]
    partition.in_sync_changed([BROKER, OTHER], partition_epoch=1)
    assert told(bench.fetched(wanted)) == [(0, "NONE", [b"a"])]
    partition.in_sync_changed([BROKER], partition_epoch=2)
    bench.now_ms += 5000
    assert told(bench.fetched(wanted)) == [(0, "NONE", [b"a"])]


async def test_a_throttle_is_not_for_consumers(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(), b"a")
    bench.throttle.configure("events", ("*",), broker_id=BROKER)
    bench.throttle.rate.limit = 0
    for _ in range(2):
        assert told(bench.fetched(request(asked()))) == [(0, "NONE", [b"a"])]
    assert not bench.throttle.rate.is_exceeded
