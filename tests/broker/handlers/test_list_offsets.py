"""ListOffsets: the offset for a timestamp, and which readers may see it."""

import pytest

from odradek.broker.handlers import list_offsets
from odradek.protocol.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.codec import decode, encode
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from tests.support.calls import called
from tests.support.fetches import append
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.logs import NOW_MS

OTHER = 2
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
CONSUMER, DEBUGGING = -1, -2
Topic = ListOffsetsRequest.Topic
VERSIONS = range(11)


def partition_query(timestamp, partition=0, **fields):
    return Topic.Partition(partition_index=partition, timestamp=timestamp, **fields)


def build_request(*partitions, replica_id=CONSUMER, isolation_level=0):
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[Topic(name="events", partitions=list(partitions))],
    )


def list_partitions(hosting, *partitions, version=9, **fields):
    request = called(build_request(*partitions, **fields), version=version)
    response = list_offsets.handle(hosting.replicas, hosting.reader, lambda: NOW_MS, request)
    assert decode(ListOffsetsResponse, version, b"".join(encode(response, version)))
    return response.topics[0].partitions


def lookup(hosting, timestamp, **fields):
    """Return offset, timestamp and leader epoch, or the error."""
    (partition_response,) = list_partitions(hosting, partition_query(timestamp), **fields)
    if partition_response.error_code:
        return ErrorCode.for_code(partition_response.error_code).name
    return partition_response.offset, partition_response.timestamp, partition_response.leader_epoch


def filled(tmp_path, **state):
    """Append three one-record batches in leader epoch 5; the second has the largest timestamp."""
    hosting = Hosting(tmp_path)
    partition = hosting.lead(epoch=5, **state)
    for timestamp in (1000, 3000, 2000):
        append(partition, timestamp=timestamp)
    return hosting, partition


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, (3, -1, 5)),
        (EARLIEST, (0, -1, 5)),
        (MAX_TIMESTAMP, (1, 3000, 5)),
        (EARLIEST_LOCAL, (0, -1, 5)),
        (LATEST_TIERED, (-1, -1, -1)),
        (0, (0, 1000, 5)),
        (1001, (1, 3000, 5)),
        (3000, (1, 3000, 5)),
        (3001, (-1, -1, -1)),
    ],
)
async def test_offset_is_found_by_timestamp(tmp_path, timestamp, expected):
    hosting, _ = filled(tmp_path)
    assert lookup(hosting, timestamp) == expected


async def test_leader_epoch_is_returned_from_version_4_on(tmp_path):
    hosting, _ = filled(tmp_path)
    assert lookup(hosting, LATEST, version=3) == (3, -1, -1)
    assert lookup(hosting, LATEST, version=4) == (3, -1, 5)


async def test_earliest_offset_is_the_log_start_offset(tmp_path):
    hosting, partition = filled(tmp_path)
    partition.log.maybe_increment_log_start_offset(2)
    assert lookup(hosting, EARLIEST) == (2, -1, 5)
    assert lookup(hosting, 1000) == (2, 2000, 5)


@pytest.mark.parametrize(
    ("timestamp", "first_version"), [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)]
)
async def test_special_timestamps_are_rejected_before_their_first_version(
    tmp_path, timestamp, first_version
):
    hosting, _ = filled(tmp_path)
    for version in VERSIONS:
        (partition_response,) = list_partitions(
            hosting, partition_query(timestamp), version=version
        )
        assert (partition_response.error_code == 0) == (version >= first_version), version


async def test_other_negative_timestamps_are_unsupported(tmp_path):
    hosting, _ = filled(tmp_path)
    assert lookup(hosting, -6, version=10) == "UNSUPPORTED_VERSION"


async def test_duplicate_partition_is_rejected_both_times(tmp_path):
    hosting, _ = filled(tmp_path)
    partition_responses = list_partitions(
        hosting,
        partition_query(LATEST),
        partition_query(EARLIEST),
        partition_query(LATEST, partition=1),
    )
    assert [ErrorCode.for_code(each.error_code).name for each in partition_responses] == [
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


async def test_read_committed_sees_up_to_the_last_stable_offset(tmp_path):
    hosting, partition = filled(tmp_path)
    append(
        partition,
        timestamp=4000,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    assert lookup(hosting, LATEST, isolation_level=1) == (3, -1, 5)
    assert lookup(hosting, LATEST) == (4, -1, 5)
    assert lookup(hosting, 4000, isolation_level=1) == (-1, -1, -1)
    assert lookup(hosting, 4000) == (3, 4000, 5)


async def test_brokers_see_the_log_end_offset_and_consumers_the_high_watermark(tmp_path):
    hosting = Hosting(tmp_path)
    append(hosting.lead(replicas=(BROKER, OTHER)), timestamp=1000)
    assert lookup(hosting, LATEST, replica_id=OTHER) == (1, -1, 0)
    assert lookup(hosting, LATEST) == (0, -1, 0)
    assert lookup(hosting, 1000, replica_id=OTHER) == (0, 1000, 0)
    assert lookup(hosting, 1000) == (-1, -1, -1)


async def test_only_debugging_consumers_may_query_followers(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(leader=OTHER, replicas=(OTHER, BROKER), epoch=4)
    assert lookup(hosting, LATEST) == "NOT_LEADER_OR_FOLLOWER"
    assert lookup(hosting, LATEST, replica_id=OTHER) == "NOT_LEADER_OR_FOLLOWER"
    assert lookup(hosting, LATEST, replica_id=DEBUGGING) == (0, -1, 4)
    for version, offsets in [(0, [0])]:
        (partition_response,) = list_partitions(
            hosting, partition_query(LATEST), replica_id=DEBUGGING, version=version
        )
        assert partition_response.old_style_offsets == offsets


@pytest.mark.parametrize(
    ("epoch", "error"), [(4, "FENCED_LEADER_EPOCH"), (6, "UNKNOWN_LEADER_EPOCH")]
)
async def test_current_leader_epoch_is_checked(tmp_path, epoch, error):
    hosting, _ = filled(tmp_path)
    (partition_response,) = list_partitions(
        hosting, partition_query(LATEST, current_leader_epoch=epoch)
    )
    assert ErrorCode.for_code(partition_response.error_code).name == error
    (partition_response,) = list_partitions(
        hosting, partition_query(LATEST, current_leader_epoch=5)
    )
    assert partition_response.error_code == 0


@pytest.mark.parametrize(
    ("version", "error"), [(4, "LEADER_NOT_AVAILABLE"), (5, "OFFSET_NOT_AVAILABLE")]
)
async def test_new_leader_with_a_stale_high_watermark_returns_a_retriable_error(
    tmp_path, version, error
):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    append(partition, timestamp=1000)
    hosting.lead(replicas=(BROKER, OTHER), epoch=1)
    assert lookup(hosting, LATEST, version=version) == error
    assert lookup(hosting, 1000, version=version) == error
    assert lookup(hosting, 2000, version=version) == error
    assert lookup(hosting, EARLIEST, version=version) == (0, -1, 0)
    assert lookup(hosting, LATEST, version=version, replica_id=OTHER) == (1, -1, 1)
    partition.update_follower_fetch_state(OTHER, fetch_offset=1, follower_start_offset=0)
    assert lookup(hosting, LATEST, version=version) == (1, -1, 1)


async def test_version_0_lists_segment_offsets(tmp_path):
    hosting, partition = filled(tmp_path)
    partition.log.roll(now_ms=NOW_MS)
    append(partition, timestamp=5000)

    def offsets(timestamp, count=10, **fields):
        query = partition_query(timestamp, max_num_offsets=count)
        (partition_response,) = list_partitions(hosting, query, version=0, **fields)
        assert partition_response.error_code == 0
        return partition_response.old_style_offsets

    assert offsets(LATEST) == [4, 3, 0]
    assert offsets(LATEST, count=1) == [4]
    assert offsets(EARLIEST) == [0]
    assert offsets(LATEST, count=0) == []
    (partition_response,) = list_partitions(
        hosting, partition_query(LATEST, max_num_offsets=-1), version=0
    )
    assert partition_response.error_code == -1


async def test_version_0_shows_consumers_only_replicated_offsets(tmp_path):
    hosting = Hosting(tmp_path)
    append(hosting.lead(replicas=(BROKER, OTHER)), b"a", b"b")
    query = partition_query(LATEST, max_num_offsets=10)
    (partition_response,) = list_partitions(hosting, query, version=0)
    assert partition_response.old_style_offsets == [0, 0]
    (partition_response,) = list_partitions(hosting, query, version=0, replica_id=OTHER)
    assert partition_response.old_style_offsets == [2, 0]


@pytest.mark.parametrize("version", VERSIONS)
async def test_request_error_is_returned_for_every_partition(version):
    request = called(
        build_request(partition_query(LATEST), partition_query(LATEST, partition=1)),
        version=version,
    )
    response = list_offsets.error_response(request, KafkaStorageError())
    assert [
        partition_response.error_code for partition_response in response.topics[0].partitions
    ] == [56, 56]
    assert encode(response, version)
