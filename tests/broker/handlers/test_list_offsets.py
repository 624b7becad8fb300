"""ListOffsets: which offset there is for a time, and who may see it."""

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
LATEST, EARLIEST, LARGEST, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
CONSUMER, DEBUGGING = -1, -2
Topic = ListOffsetsRequest.Topic
VERSIONS = range(11)


def asked(timestamp, partition=0, **fields):
    return Topic.Partition(partition_index=partition, timestamp=timestamp, **fields)


def request(*partitions, replica_id=CONSUMER, isolation_level=0):
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[Topic(name="events", partitions=list(partitions))],
    )


def listed(hosting, *partitions, version=9, **fields):
    call = called(request(*partitions, **fields), version=version)
    response = list_offsets.handle(hosting.replicas, hosting.reader, lambda: NOW_MS, call)
    assert decode(ListOffsetsResponse, version, b"".join(encode(response, version)))
    return response.topics[0].partitions


def found(hosting, timestamp, **fields):
    """Offset, timestamp and leader epoch, or the error."""
    (line,) = listed(hosting, asked(timestamp), **fields)
    if line.error_code:
        return ErrorCode.of(line.error_code).name
    return line.offset, line.timestamp, line.leader_epoch


def filled(tmp_path, **state):
    """Three batches of one record in leader epoch 5, the second the youngest."""
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
        (LARGEST, (1, 3000, 5)),
        (EARLIEST_LOCAL, (0, -1, 5)),
        (LATEST_TIERED, (-1, -1, -1)),
        (0, (0, 1000, 5)),
        (1001, (1, 3000, 5)),
        (3000, (1, 3000, 5)),
        (3001, (-1, -1, -1)),
    ],
)
async def test_offsets_are_found_by_their_time(tmp_path, timestamp, expected):
    hosting, _ = filled(tmp_path)
    assert found(hosting, timestamp) == expected


async def test_old_versions_hear_of_no_epoch(tmp_path):
    hosting, _ = filled(tmp_path)
    assert found(hosting, LATEST, version=3) == (3, -1, -1)
    assert found(hosting, LATEST, version=4) == (3, -1, 5)


async def test_the_earliest_offset_follows_deleted_records(tmp_path):
    hosting, partition = filled(tmp_path)
    partition.log.advance_start(2)
    assert found(hosting, EARLIEST) == (2, -1, 5)
    assert found(hosting, 1000) == (2, 2000, 5)


@pytest.mark.parametrize(
    ("timestamp", "first_version"), [(LARGEST, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)]
)
async def test_a_version_knows_only_its_own_special_timestamps(tmp_path, timestamp, first_version):
    hosting, _ = filled(tmp_path)
    for version in VERSIONS:
        (line,) = listed(hosting, asked(timestamp), version=version)
        assert (line.error_code == 0) == (version >= first_version), version


async def test_other_timestamps_below_zero_mean_nothing(tmp_path):
    hosting, _ = filled(tmp_path)
    assert found(hosting, -6, version=10) == "UNSUPPORTED_VERSION"


async def test_a_partition_named_twice_is_refused_both_times(tmp_path):
    hosting, _ = filled(tmp_path)
    lines = listed(hosting, asked(LATEST), asked(EARLIEST), asked(LATEST, partition=1))
    assert [ErrorCode.of(line.error_code).name for line in lines] == [
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


async def test_who_reads_committed_records_sees_up_to_the_first_open_transaction(tmp_path):
    hosting, partition = filled(tmp_path)
    append(
        partition,
        timestamp=4000,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    assert found(hosting, LATEST, isolation_level=1) == (3, -1, 5)
    assert found(hosting, LATEST) == (4, -1, 5)
    assert found(hosting, 4000, isolation_level=1) == (-1, -1, -1)
    assert found(hosting, 4000) == (3, 4000, 5)


async def test_brokers_see_the_whole_log_and_consumers_what_is_replicated(tmp_path):
    hosting = Hosting(tmp_path)
    append(hosting.lead(replicas=(BROKER, OTHER)), timestamp=1000)
    assert found(hosting, LATEST, replica_id=OTHER) == (1, -1, 0)
    assert found(hosting, LATEST) == (0, -1, 0)
    assert found(hosting, 1000, replica_id=OTHER) == (0, 1000, 0)
    assert found(hosting, 1000) == (-1, -1, -1)


async def test_only_debugging_consumers_ask_followers(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(leader=OTHER, replicas=(OTHER, BROKER), epoch=4)
    assert found(hosting, LATEST) == "NOT_LEADER_OR_FOLLOWER"
    assert found(hosting, LATEST, replica_id=OTHER) == "NOT_LEADER_OR_FOLLOWER"
    assert found(hosting, LATEST, replica_id=DEBUGGING) == (0, -1, 4)
    for version, offsets in [(0, [0])]:
        (line,) = listed(hosting, asked(LATEST), replica_id=DEBUGGING, version=version)
        assert line.old_style_offsets == offsets


@pytest.mark.parametrize(
    ("epoch", "error"), [(4, "FENCED_LEADER_EPOCH"), (6, "UNKNOWN_LEADER_EPOCH")]
)
async def test_the_askers_leader_epoch_is_checked(tmp_path, epoch, error):
    hosting, _ = filled(tmp_path)
    (line,) = listed(hosting, asked(LATEST, current_leader_epoch=epoch))
    assert ErrorCode.of(line.error_code).name == error
    (line,) = listed(hosting, asked(LATEST, current_leader_epoch=5))
    assert line.error_code == 0


@pytest.mark.parametrize(
    ("version", "error"), [(4, "LEADER_NOT_AVAILABLE"), (5, "OFFSET_NOT_AVAILABLE")]
)
async def test_a_leader_that_does_not_know_its_watermark_yet_does_not_guess(
    tmp_path, version, error
):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    append(partition, timestamp=1000)
    hosting.lead(replicas=(BROKER, OTHER), epoch=1)
    assert found(hosting, LATEST, version=version) == error
    assert found(hosting, 1000, version=version) == error
    assert found(hosting, 2000, version=version) == error
    assert found(hosting, EARLIEST, version=version) == (0, -1, 0)
    assert found(hosting, LATEST, version=version, replica_id=OTHER) == (1, -1, 1)
    partition.follower_fetched(OTHER, offset=1, start_offset=0)
    assert found(hosting, LATEST, version=version) == (1, -1, 1)


async def test_the_oldest_version_lists_segments(tmp_path):
    hosting, partition = filled(tmp_path)
    partition.log.roll(now_ms=NOW_MS)
    append(partition, timestamp=5000)

    def offsets(timestamp, count=10, **fields):
        wanted = asked(timestamp, max_num_offsets=count)
        (line,) = listed(hosting, wanted, version=0, **fields)
        assert line.error_code == 0
        return line.old_style_offsets

    assert offsets(LATEST) == [4, 3, 0]
    assert offsets(LATEST, count=1) == [4]
    assert offsets(EARLIEST) == [0]
    assert offsets(LATEST, count=0) == []
    (line,) = listed(hosting, asked(LATEST, max_num_offsets=-1), version=0)
    assert line.error_code == -1


async def test_the_oldest_version_too_shows_consumers_only_what_is_replicated(tmp_path):
    hosting = Hosting(tmp_path)
    append(hosting.lead(replicas=(BROKER, OTHER)), b"a", b"b")
    wanted = asked(LATEST, max_num_offsets=10)
    (line,) = listed(hosting, wanted, version=0)
    assert line.old_style_offsets == [0, 0]
    (line,) = listed(hosting, wanted, version=0, replica_id=OTHER)
    assert line.old_style_offsets == [2, 0]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_refusal_of_all_reaches_every_line(version):
    call = called(request(asked(LATEST), asked(LATEST, partition=1)), version=version)
    response = list_offsets.refused(call, KafkaStorageError())
    assert [line.error_code for line in response.topics[0].partitions] == [56, 56]
    assert encode(response, version)
