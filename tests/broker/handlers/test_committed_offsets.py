"""OffsetCommit, OffsetFetch and OffsetDelete, in every version."""

import asyncio

import pytest

from odradek.broker.handlers import offset_commit, offset_delete, offset_fetch
from odradek.protocol.api.offset_commit import OffsetCommitRequest
from odradek.protocol.api.offset_delete import OffsetDeleteRequest
from odradek.protocol.api.offset_fetch import OffsetFetchRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from odradek.storage.unified_log import LogAppendInfo
from tests.support.calls import as_sent, called, in_the_end
from tests.support.group_coordinators import Coordinating
from tests.support.hosted_partitions import BROKER
from tests.support.logs import NOW_MS
from tests.support.turn_counting import MANY, in_turns

COMMIT_VERSIONS = range(10)
FETCH_VERSIONS = range(10)
OTHER = 2


@pytest.fixture
def scene(tmp_path):
    """Return a factory, because the coordinator must be created on the event loop of the test."""

    def make(**options):
        made = Coordinating(tmp_path, **options)
        made.know("events", partitions=2)
        return made

    return make


def commit_request(*partitions, version, group="g", **fields):
    entries = [
        OffsetCommitRequest.Topic.Partition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index, offset, metadata in partitions
    ]
    if version >= 6:
        for entry in entries:
            entry.committed_leader_epoch = 4
    topic = OffsetCommitRequest.Topic(name="events", partitions=entries)
    return OffsetCommitRequest(group_id=group, topics=[topic], **fields)


async def commit(scene, *partitions, version=9, **fields):
    if not scene.store.session_id:
        await scene.store.open_session()
    request = called(commit_request(*partitions, version=version, **fields), version=version)
    pending = offset_commit.handle(scene.groups, scene.cluster, scene.old, request)
    response = as_sent(await in_the_end(pending), version=version)
    return [
        ErrorCode.for_code(partition.error_code).name for partition in response.topics[0].partitions
    ]


async def fetch(scene, *indexes, version=9, group="g", **fields):
    """Return offset, metadata and error of each partition."""
    request = called(fetch_request(indexes or None, version, group, **fields), version=version)
    pending = offset_fetch.handle(scene.groups, scene.cluster, scene.old, request)
    response = as_sent(await in_the_end(pending), version=version)
    group_response = response.groups[0] if version >= 8 else response
    partitions = [partition for topic in group_response.topics for partition in topic.partitions]
    results = [
        (
            partition.committed_offset,
            partition.metadata,
            ErrorCode.for_code(partition.error_code).name,
        )
        for partition in partitions
    ]
    return (
        results
        if not group_response.error_code
        else ErrorCode.for_code(group_response.error_code).name
    )


def fetch_request(indexes, version, group, **fields):
    if version >= 8:
        topic_type = OffsetFetchRequest.Group.Topic
        topics = indexes and [topic_type(name="events", partition_indexes=list(indexes))]
        groups = [OffsetFetchRequest.Group(group_id=group, topics=topics)]
        return OffsetFetchRequest(groups=groups, **fields)
    topics = indexes and [OffsetFetchRequest.Topic(name="events", partition_indexes=list(indexes))]
    return OffsetFetchRequest(group_id=group, topics=topics, **fields)


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_committed_offsets_are_fetched(scene, version):
    scene = scene()
    assert await commit(scene, (0, 7, "half"), (1, 8, None), version=version) == ["NONE", "NONE"]
    metadata = ("", "") if version == 0 else ("half", "")
    for fetch_version in [0] if version == 0 else FETCH_VERSIONS[1:]:
        assert await fetch(scene, 0, 1, version=fetch_version) == [
            (7, metadata[0], "NONE"),
            (8, metadata[1], "NONE"),
        ]


async def test_version_0_offsets_in_zookeeper_are_separate_from_kafka_offsets(scene):
    scene = scene()
    await commit(scene, (0, 7, "old"), version=0)
    assert await fetch(scene, 0, version=1) == [(-1, "", "NONE")]
    await commit(scene, (1, 8, "new"), version=1)
    assert await fetch(scene, 0, 1, version=0) == [
        (7, "", "NONE"),
        (-1, "", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


@pytest.mark.parametrize("version", FETCH_VERSIONS[2:])
async def test_all_offsets_of_a_group_can_be_fetched(scene, version):
    scene = scene()
    await commit(scene, (0, 7, "half"), (1, 8, ""))
    assert await fetch(scene, version=version) == [(7, "half", "NONE"), (8, "", "NONE")]
    assert await fetch(scene, version=version, group="nobody") == []


@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
async def test_offset_that_was_never_committed_is_minus_1(scene, version):
    assert await fetch(scene(), 0, version=version) == [(-1, "", "NONE")]


async def test_leader_epoch_is_committed_from_version_6_and_fetched_from_version_5(scene):
    scene = scene()
    await commit(scene, (0, 7, ""), version=6)
    for version, epoch in [(4, -1), (5, 4), (8, 4)]:
        request = called(fetch_request((0,), version, "g"), version=version)
        pending = offset_fetch.handle(scene.groups, scene.cluster, scene.old, request)
        response = as_sent(await in_the_end(pending), version=version)
        group_response = response.groups[0] if version >= 8 else response
        assert group_response.topics[0].partitions[0].committed_leader_epoch == epoch


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_each_partition_is_rejected_independently(scene, version):
    scene = scene(metadata_max_bytes=5)
    entries = (0, 7, "right"), (1, 7, "longer"), (2, 7, "")
    assert await commit(scene, *entries, version=version) == [
        "NONE",
        "OFFSET_METADATA_TOO_LARGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


async def test_empty_group_id_can_commit_and_fetch_offsets(scene):
    scene = scene()
    assert await commit(scene, (0, 7, ""), group="") == ["NONE"]
    assert await fetch(scene, 0, group="") == [(7, "", "NONE")]


@pytest.mark.parametrize("version", COMMIT_VERSIONS[1:])
async def test_group_error_is_returned_for_every_partition(scene, version):
    scene = scene()
    fields = {"generation_id_or_member_epoch": 3, "member_id": "stranger"}
    entries = (0, 7, ""), (1, 7, "")
    assert await commit(scene, *entries, version=version, **fields) == ["ILLEGAL_GENERATION"] * 2


@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
async def test_commit_and_fetch_fail_on_a_broker_that_is_not_coordinator(scene, version):
    scene = scene(partitions=0)
    assert await commit(scene, (0, 7, ""), version=max(version, 1)) == ["NOT_COORDINATOR"]
    fetched = await fetch(scene, 0, version=version)
    assert fetched == ("NOT_COORDINATOR" if version >= 2 else [(-1, "", "NOT_COORDINATOR")])


async def test_retention_time_and_commit_timestamp_are_stored(scene):
    scene = scene()
    await commit(scene, (0, 7, ""), version=2, retention_time_ms=500)
    committed = scene.groups.shard("g").offsets["g"].committed["events", 0]
    assert (committed.commit_timestamp_ms, committed.expire_timestamp_ms) == (NOW_MS, NOW_MS + 500)
    body = commit_request((0, 7, ""), version=1)
    body.topics[0].partitions[0].commit_timestamp = 99
    offset_commit.handle(scene.groups, scene.cluster, scene.old, called(body, version=1))
    committed = scene.groups.shard("g").offsets["g"].committed["events", 0]
    assert (committed.commit_timestamp_ms, committed.expire_timestamp_ms) == (99, -1)


@pytest.mark.parametrize("version", [7, 8, 9])
async def test_pending_transactional_offset_is_unstable_if_stability_is_required(scene, version):
    scene = scene()
    await commit(scene, (0, 7, "half"), (1, 7, ""))
    offsets = scene.groups.shard("g").offsets["g"]
    offsets.commit_pending(9, ("events", 0), offsets.committed["events", 0])
    assert await fetch(scene, 0, version=version) == [(7, "half", "NONE")]
    assert await fetch(scene, 0, 1, version=version, require_stable=True) == [
        (-1, "", "UNSTABLE_OFFSET_COMMIT"),
        (7, "", "NONE"),
    ]


async def test_offsets_of_several_groups_are_fetched_at_once(scene):
    scene = scene()
    await commit(scene, (0, 7, ""), group="a")
    topics = [OffsetFetchRequest.Group.Topic(name="events", partition_indexes=[0])]
    groups = [OffsetFetchRequest.Group(group_id=each, topics=topics) for each in ("a", "b")]
    request = called(OffsetFetchRequest(groups=groups), version=8)
    response = offset_fetch.handle(scene.groups, scene.cluster, scene.old, request)
    offsets = [
        (each.group_id, each.topics[0].partitions[0].committed_offset) for each in response.groups
    ]
    assert offsets == [("a", 7), ("b", -1)]


async def test_commit_and_fetch_wait_until_the_commit_is_replicated(scene):
    scene = scene(partitions=0)
    partition = scene.lead(replicas=(BROKER, OTHER))
    start = scene.hosting.background.start
    committed = start(commit(scene, (0, 7, "")))
    for _ in range(10):
        await asyncio.sleep(0)
    assert partition.log.log_end_offset == 1
    fetched = start(fetch(scene, 0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not committed.done()
    assert not fetched.done()
    partition.update_follower_fetch_state(OTHER, fetch_offset=1, follower_start_offset=0)
    assert await committed == ["NONE"]
    assert await fetched == [(7, "", "NONE")]


@pytest.mark.parametrize("count", [1, MANY])
async def test_waiting_fetch_does_not_return_later_commits(scene, count):
    scene = scene(partitions=0)
    scene.know("events", partitions=count)
    partition = scene.lead(replicas=(BROKER, OTHER))
    start = scene.hosting.background.start

    async def start_and_yield(coroutine):
        task = start(coroutine)
        for _ in range(10):
            await asyncio.sleep(0)
        return task

    await start_and_yield(commit(scene, *((index, 7, "") for index in range(count))))
    fetched = await start_and_yield(fetch(scene, *range(count)))
    replicated = partition.log.log_end_offset
    await start_and_yield(commit(scene, *((index, 8, "") for index in range(count))))
    assert partition.log.log_end_offset > replicated
    partition.update_follower_fetch_state(OTHER, fetch_offset=replicated, follower_start_offset=0)
    assert await fetched == [(7, "", "NONE")] * count


async def test_commit_that_is_not_replicated_in_time_is_not_returned(scene):
    scene = scene(partitions=0, commit_timeout_ms=1)
    scene.lead(replicas=(BROKER, OTHER))
    assert await commit(scene, (0, 7, "")) == ["REQUEST_TIMED_OUT"]
    assert await fetch(scene, 0) == "NOT_COORDINATOR"


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_commit_error_is_returned_for_every_partition(version):
    request = called(commit_request((0, 1, ""), (1, 1, ""), version=version), version=version)
    response = as_sent(offset_commit.error_response(request, KafkaStorageError()), version=version)
    assert [each.error_code for each in response.topics[0].partitions] == [56, 56]


@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
def test_fetch_error_is_returned_for_the_group(version):
    request = called(fetch_request((0, 1), version, "g"), version=version)
    response = as_sent(offset_fetch.error_response(request, KafkaStorageError()), version=version)
    if version >= 8:
        assert response.groups[0].error_code == 56
    elif version >= 2:
        assert response.error_code == 56
    else:
        assert [each.error_code for each in response.topics[0].partitions] == [56, 56]


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
async def test_fetch_of_many_offsets_yields_to_the_event_loop(scene, version):
    scene = scene()
    scene.know("events", partitions=MANY)
    await commit(scene, *((index, 7, "") for index in range(MANY)))
    body = fetch_request(range(MANY) if version < 2 else None, version, "g")
    request = called(body, version=version)
    pending = offset_fetch.handle(scene.groups, scene.cluster, scene.old, request)
    response, slice_count = await in_turns(pending)
    assert slice_count >= MANY
    group_response = response.groups[0] if version >= 8 else response
    assert len(group_response.topics[0].partitions) == MANY


async def test_fetch_of_many_offsets_does_not_return_later_commits(scene):
    scene = scene()
    scene.know("events", partitions=MANY)
    await commit(scene, *((index, 7, "") for index in range(MANY)))
    pending = offset_fetch.handle(
        scene.groups, scene.cluster, scene.old, called(fetch_request(None, 9, "g"))
    )
    await commit(scene, *((index, 8, "") for index in range(MANY)))
    (group_response,) = (await pending).groups
    assert {each.committed_offset for each in group_response.topics[0].partitions} == {7}


async def test_each_offset_is_deleted_independently(scene):
    scene = scene()
    await commit(scene, (0, 7, ""), (1, 8, ""))
    partitions = [OffsetDeleteRequest.Topic.Partition(partition_index=index) for index in (1, 5)]
    topic = OffsetDeleteRequest.Topic(name="events", partitions=partitions)
    request = called(OffsetDeleteRequest(group_id="g", topics=[topic]), version=0)
    response = as_sent(offset_delete.handle(scene.groups, scene.cluster, request), version=0)
    assert [each.error_code for each in response.topics[0].partitions] == [0, 3]
    assert await fetch(scene) == [(7, "", "NONE")]


async def test_small_commit_is_answered_immediately(scene):
    scene = scene()
    request = called(commit_request((0, 7, ""), version=9), version=9)
    response = offset_commit.handle(scene.groups, scene.cluster, scene.old, request)
    assert response.topics[0].partitions[0].error_code == 0
    assert scene.groups.shard("g").log.is_replicated(LogAppendInfo(0, 0))
