"""Fetch: which records are returned, how many, and when."""

import errno
from types import SimpleNamespace

import pytest

from odradek.broker.fetching import partition_reader
from odradek.broker.handlers import fetch
from odradek.broker.metadata.metadata_snapshot import Node
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


# Reads


async def test_consumer_reads_from_its_fetch_offset(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a", b"b")
    append(partition, b"c")
    response = bench.fetched(request(asked(offset=2)))
    assert told(response) == [(0, "NONE", [b"c"])]
    (partition_data,) = lines(response)
    assert isinstance(partition_data.records, FileRegion)
    assert (
        partition_data.high_watermark,
        partition_data.last_stable_offset,
        partition_data.log_start_offset,
    ) == (3, 3, 0)
    assert (partition_data.aborted_transactions, partition_data.preferred_read_replica) == (
        None,
        -1,
    )


@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_every_version_is_answered(tmp_path, version):
    bench = FetchBench(tmp_path)
    append(bench.lead(topic_id=AN_ID), b"a")
    has_ids = version >= 13
    fetch_request = request(asked(), topic="" if has_ids else "events")
    if has_ids:
        fetch_request.topics[0].topic_id = AN_ID
    fetch_request = decode(FetchRequest, version, b"".join(encode(fetch_request, version)))
    response = await in_the_end(bench.fetched(fetch_request, version=version))
    assert told(response) == [(0, "NONE", [b"a"])]
    assert encode(response, version)


async def test_each_partition_succeeds_or_fails_independently(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(0))
    bench.lead(1, leader=OTHER, replicas=(OTHER, BROKER))
    append(bench.lead(3))
    fetch_request = request(asked(0), asked(7), asked(1), asked(3), asked(0, offset=9))
    response = bench.fetched(fetch_request, version=10)
    assert told(response) == [
        (0, "OFFSET_OUT_OF_RANGE", []),
        (1, "NOT_LEADER_OR_FOLLOWER", []),
        (3, "NONE", [b"v"]),
        (7, "UNKNOWN_TOPIC_OR_PARTITION", []),
    ]
    assert [partition_data.high_watermark for partition_data in lines(response)] == [-1, -1, 1, -1]


@pytest.mark.parametrize(("offset", "error"), [(0, 1), (1, 1), (2, 0), (4, 0), (5, 0), (6, 1)])
async def test_offset_outside_the_log_is_out_of_range(tmp_path, offset, error):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    for _ in range(5):
        append(partition)
    partition.log.maybe_increment_log_start_offset(2)
    (partition_data,) = lines(bench.fetched(request(asked(offset=offset))))
    assert partition_data.error_code == error


async def test_consumers_read_to_the_high_watermark_and_followers_to_the_log_end(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead(replicas=(BROKER, OTHER))
    append(partition, b"a")
    assert told(bench.fetched(request(asked()))) == [(0, "NONE", [])]
    beyond = bench.fetched(request(asked(offset=1)))
    assert told(beyond) == [(0, "NONE", [])]
    assert told(bench.fetched(request(asked(), replica_id=OTHER))) == [(0, "NONE", [b"a"])]


async def test_fetch_offset_of_a_follower_advances_the_high_watermark(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead(replicas=(BROKER, OTHER))
    append(partition, b"a")
    bench.fetched(request(asked(offset=1), replica_id=OTHER))
    assert partition.log.high_watermark == 1
    assert told(bench.fetched(request(asked()))) == [(0, "NONE", [b"a"])]


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, "NOT_LEADER_OR_FOLLOWER"), (0, "UNKNOWN_LEADER_EPOCH")]
)
async def test_fetch_by_an_unknown_replica_is_rejected(tmp_path, epoch, error):
    bench = FetchBench(tmp_path)
    bench.lead()
    fetch_request = request(asked(current_leader_epoch=epoch), replica_id=OTHER)
    assert errors(bench.fetched(fetch_request)) == [error]


async def test_version_15_reads_the_replica_id_from_the_replica_state(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(replicas=(BROKER, OTHER), topic_id=AN_ID), b"a")
    fetch_request = request(asked(), replica_state=FetchRequest.ReplicaState(replica_id=OTHER))
    fetch_request.topics[0].topic_id = AN_ID
    assert told(bench.fetched(fetch_request, version=15)) == [(0, "NONE", [b"a"])]


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
async def test_current_leader_epoch_is_checked(tmp_path, epoch, error):
    bench = FetchBench(tmp_path)
    bench.lead(epoch=5)
    assert errors(bench.fetched(request(asked(current_leader_epoch=epoch)))) == [error]


async def test_consumers_may_read_from_followers_from_version_11_on(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(leader=OTHER, replicas=(OTHER, BROKER))
    assert errors(bench.fetched(request(asked()), version=10)) == ["NOT_LEADER_OR_FOLLOWER"]
    assert errors(bench.fetched(request(asked()), version=11)) == ["NONE"]
    fetch_request = request(asked(), replica_id=OTHER)
    assert errors(bench.fetched(fetch_request, version=11)) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_storage_error_is_mapped_in_versions_before_6(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    partition.hosted_log.directory.mark_offline(OSError("broken"), "a test")
    for version, error in [(5, "NOT_LEADER_OR_FOLLOWER"), (6, "KAFKA_STORAGE_ERROR")]:
        assert errors(bench.fetched(request(asked()), version=version)) == [error]


async def test_read_error_while_sizing_batches_fails_only_the_partitions_of_that_disk(
    tmp_path, monkeypatch
):
    bench = FetchBench(tmp_path)
    for index in range(2):
        append(bench.lead(index), b"a")

    def fail(*_):
        raise OSError(errno.EIO, "read error")

    monkeypatch.setattr(partition_reader, "files", SimpleNamespace(read_at=fail))
    response = bench.fetched(request(asked(0), asked(1)), version=6)
    assert errors(response) == ["NONE", "KAFKA_STORAGE_ERROR"]


async def test_log_that_needs_recovery_is_not_read_even_if_empty(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead().hosted_log.needs_recovery = True
    assert errors(bench.fetched(request(asked()))) == ["KAFKA_STORAGE_ERROR"]


# Transactions


async def test_read_committed_ends_at_the_last_stable_offset(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")
    append(partition, b"b", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    fetch_request = request(asked(), isolation_level=READ_COMMITTED)
    assert told(bench.fetched(fetch_request)) == [(0, "NONE", [b"a"])]
    assert lines(bench.fetched(fetch_request))[0].last_stable_offset == 1
    assert told(bench.fetched(request(asked()))) == [(0, "NONE", [b"a", b"b"])]


async def test_read_committed_returns_the_aborted_transactions_in_its_range(tmp_path):
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
    fetch_request = request(asked(), isolation_level=READ_COMMITTED)
    (partition_data,) = lines(bench.fetched(fetch_request))
    assert [
        (each.producer_id, each.first_offset) for each in partition_data.aborted_transactions
    ] == [
        (7, 0),
        (8, 2),
    ]
    fetch_request = request(asked(max_bytes=1), isolation_level=READ_COMMITTED)
    (partition_data,) = lines(bench.fetched(fetch_request))
    assert [each.producer_id for each in partition_data.aborted_transactions] == [7]
    fetch_request = request(asked(offset=4), isolation_level=READ_COMMITTED)
    assert lines(bench.fetched(fetch_request))[0].aborted_transactions == []


# Topic ids


def by_id(topic_id, *partitions, **fields):
    fetch_request = request(*partitions, topic="", **fields)
    fetch_request.topics[0].topic_id = topic_id
    return fetch_request


async def test_topics_are_fetched_by_id(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(topic_id=AN_ID), b"a")
    response = bench.fetched(by_id(AN_ID, asked()), version=13)
    assert told(response) == [(0, "NONE", [b"a"])]
    assert response.responses[0].topic_id == AN_ID
    unknown = bench.fetched(by_id(ANOTHER_ID, asked()), version=13)
    assert errors(unknown) == ["UNKNOWN_TOPIC_ID"]
    assert unknown.responses[0].topic_id == ANOTHER_ID


async def test_topic_id_that_differs_from_the_log_is_rejected(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(topic_id=AN_ID)
    bench.hosting.known.names[ANOTHER_ID] = "events"
    response = bench.fetched(by_id(ANOTHER_ID, asked()), version=13)
    assert errors(response) == ["INCONSISTENT_TOPIC_ID"]


# Diverging epochs


async def diverged(tmp_path):
    """Append in epochs 1 and 3, which start at offsets 0 and 2; the log ends at 3."""
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
async def test_diverged_reader_gets_the_diverging_epoch_and_its_end_offset(
    tmp_path, last_epoch, offset, diverging
):
    bench = await diverged(tmp_path)
    fetch_request = request(asked(offset=offset, last_fetched_epoch=last_epoch), max_wait_ms=0)
    (partition_data,) = lines(bench.fetched(fetch_request))
    assert (
        partition_data.diverging_epoch.epoch,
        partition_data.diverging_epoch.end_offset,
    ) == diverging
    assert partition_data.error_code == 0


async def test_last_fetched_epoch_newer_than_the_log_is_out_of_range(tmp_path):
    bench = await diverged(tmp_path)
    fetch_request = request(asked(offset=3, last_fetched_epoch=4))
    assert errors(bench.fetched(fetch_request)) == ["OFFSET_OUT_OF_RANGE"]


# Current leader


async def test_fetch_from_the_wrong_broker_returns_the_current_leader(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead(0, leader=OTHER, replicas=(OTHER, BROKER), epoch=4, topic_id=AN_ID)
    bench.cluster.brokers[OTHER] = Node(OTHER, "there", 9092, "r")
    fetch_request = by_id(AN_ID, asked(0, current_leader_epoch=3))
    response = bench.fetched(fetch_request, version=16)
    (partition_data,) = lines(response)
    assert ErrorCode.for_code(partition_data.error_code).name == "FENCED_LEADER_EPOCH"
    assert (
        partition_data.current_leader.leader_id,
        partition_data.current_leader.leader_epoch,
    ) == (OTHER, 4)
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


async def test_current_leader_of_a_remote_partition_comes_from_the_metadata(tmp_path):
    bench = FetchBench(tmp_path)
    bench.hosting.known.partitions.add(("events", 5))
    bench.hosting.known.names[AN_ID] = "events"
    bench.cluster.leaders["events", 5] = SimpleNamespace(leader=OTHER, leader_epoch=8)
    (partition_data,) = lines(bench.fetched(by_id(AN_ID, asked(5)), version=16))
    assert ErrorCode.for_code(partition_data.error_code).name == "NOT_LEADER_OR_FOLLOWER"
    assert (
        partition_data.current_leader.leader_id,
        partition_data.current_leader.leader_epoch,
    ) == (OTHER, 8)


# Errors


@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_request_error_is_returned_in_every_version(version):
    fetch_request = request(asked(3), asked(4), session_id=77)
    response = fetch.error_response(called(fetch_request, version=version), KafkaStorageError())
    assert response.error_code == KafkaStorageError.error_code.code
    assert list(numbers(response)) == ([3, 4] if version < 13 else [])
    if version < 7:
        response.session_id = 0
    assert decode(FetchResponse, version, b"".join(encode(response, version)))


async def test_response_groups_adjacent_partitions_of_a_topic(tmp_path):
    bench = FetchBench(tmp_path)
    for topic, partition in [("a", 0), ("b", 0), ("a", 1), ("a", 2)]:
        bench.hosting.lead(topic, partition)
    fetch_request = request(asked(0), topic="a")
    fetch_request.topics += request(asked(0), topic="b").topics
    fetch_request.topics += request(asked(1), asked(2), topic="a").topics
    response = bench.fetched(fetch_request)
    assert [(each.topic, len(each.partitions)) for each in response.responses] == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
    ]


# Throttled followers


async def test_throttled_follower_gets_no_records_above_the_rate(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead(replicas=(BROKER, OTHER), in_sync=[BROKER])
    size = append(partition, b"a")
    bench.throttle.configure("events", ("0:1",), broker_id=BROKER)
    bench.throttle.rate.limit = size - 1
    fetch_request = request(asked(log_start_offset=0), replica_id=OTHER)
    assert told(bench.fetched(fetch_request)) == [(0, "NONE", [b"a"])]
    assert told(bench.fetched(fetch_request)) == [(0, "NONE", [])]
    partition.update_isr([BROKER, OTHER], partition_epoch=1)
    assert told(bench.fetched(fetch_request)) == [(0, "NONE", [b"a"])]
    partition.update_isr([BROKER], partition_epoch=2)
    bench.now_ms += 5000
    assert told(bench.fetched(fetch_request)) == [(0, "NONE", [b"a"])]


async def test_consumers_are_not_throttled_by_the_replication_quota(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(), b"a")
    bench.throttle.configure("events", ("*",), broker_id=BROKER)
    bench.throttle.rate.limit = 0
    for _ in range(2):
        assert told(bench.fetched(request(asked()))) == [(0, "NONE", [b"a"])]
    assert not bench.throttle.rate.is_exceeded
