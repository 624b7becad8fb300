"""OffsetCommit, OffsetFetch and OffsetDelete, in every version."""

import asyncio

import pytest

from odradek.broker.handlers import offset_commit, offset_delete, offset_fetch
from odradek.protocol.api.offset_commit import OffsetCommitRequest
from odradek.protocol.api.offset_delete import OffsetDeleteRequest
from odradek.protocol.api.offset_fetch import OffsetFetchRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from odradek.storage.log import Written
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
    """Made on the loop of the test, by whoever awaits it."""

    def make(**options):
        made = Coordinating(tmp_path, **options)
        made.know("events", partitions=2)
        return made

    return make


def committing(*partitions, version, group="g", **fields):
    asked = [
        OffsetCommitRequest.Topic.Partition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index, offset, metadata in partitions
    ]
    if version >= 6:
        for each in asked:
            each.committed_leader_epoch = 4
    topic = OffsetCommitRequest.Topic(name="events", partitions=asked)
    return OffsetCommitRequest(group_id=group, topics=[topic], **fields)


async def commit(scene, *partitions, version=9, **fields):
    if not scene.store.session_id:
        await scene.store.open_session()
    call = called(committing(*partitions, version=version, **fields), version=version)
    answer = offset_commit.handle(scene.groups, scene.cluster, scene.old, call)
    response = as_sent(await in_the_end(answer), version=version)
    return [ErrorCode.of(line.error_code).name for line in response.topics[0].partitions]


async def fetch(scene, *indexes, version=9, group="g", **fields):
    """What is told of each partition: offset, metadata, error."""
    call = called(fetching(indexes or None, version, group, **fields), version=version)
    answer = offset_fetch.handle(scene.groups, scene.cluster, scene.old, call)
    response = as_sent(await in_the_end(answer), version=version)
    told = response.groups[0] if version >= 8 else response
    lines = [line for topic in told.topics for line in topic.partitions]
    shown = [
        (line.committed_offset, line.metadata, ErrorCode.of(line.error_code).name) for line in lines
    ]
    return shown if not told.error_code else ErrorCode.of(told.error_code).name


def fetching(indexes, version, group, **fields):
    if version >= 8:
        kind = OffsetFetchRequest.Group.Topic
        topics = indexes and [kind(name="events", partition_indexes=list(indexes))]
        groups = [OffsetFetchRequest.Group(group_id=group, topics=topics)]
        return OffsetFetchRequest(groups=groups, **fields)
    topics = indexes and [OffsetFetchRequest.Topic(name="events", partition_indexes=list(indexes))]
    return OffsetFetchRequest(group_id=group, topics=topics, **fields)


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_what_was_committed_is_told(scene, version):
    scene = scene()
    assert await commit(scene, (0, 7, "half"), (1, 8, None), version=version) == ["NONE", "NONE"]
    metadata = ("", "") if version == 0 else ("half", "")
    for fetch_version in [0] if version == 0 else FETCH_VERSIONS[1:]:
        assert await fetch(scene, 0, 1, version=fetch_version) == [
            (7, metadata[0], "NONE"),
            (8, metadata[1], "NONE"),
        ]


async def test_the_oldest_versions_and_the_others_know_nothing_of_each_other(scene):
    scene = scene()
    await commit(scene, (0, 7, "old"), version=0)
    assert await fetch(scene, 0, version=1) == [(-1, "", "NONE")]
    await commit(scene, (1, 8, "new"), version=1)
    assert await fetch(scene, 0, 1, version=0) == [
        (7, "", "NONE"),
        (-1, "", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


@pytest.mark.parametrize("version", FETCH_VERSIONS[2:])
async def test_all_offsets_of_a_group_may_be_asked_for(scene, version):
    scene = scene()
    await commit(scene, (0, 7, "half"), (1, 8, ""))
    assert await fetch(scene, version=version) == [(7, "half", "NONE"), (8, "", "NONE")]
    assert await fetch(scene, version=version, group="nobody") == []


@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
async def test_what_was_never_committed_is_minus_1(scene, version):
    assert await fetch(scene(), 0, version=version) == [(-1, "", "NONE")]


async def test_a_leader_epoch_is_kept_from_version_6_to_version_5(scene):
    scene = scene()
    await commit(scene, (0, 7, ""), version=6)
    for version, epoch in [(4, -1), (5, 4), (8, 4)]:
        call = called(fetching((0,), version, "g"), version=version)
        answer = offset_fetch.handle(scene.groups, scene.cluster, scene.old, call)
        response = as_sent(await in_the_end(answer), version=version)
        told = response.groups[0] if version >= 8 else response
        assert told.topics[0].partitions[0].committed_leader_epoch == epoch


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
async def test_each_line_is_refused_alone(scene, version):
    scene = scene(metadata_max_bytes=5)
    lines = (0, 7, "right"), (1, 7, "longer"), (2, 7, "")
    assert await commit(scene, *lines, version=version) == [
        "NONE",
        "OFFSET_METADATA_TOO_LARGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


async def test_the_empty_name_is_good_for_offsets(scene):
    scene = scene()
    assert await commit(scene, (0, 7, ""), group="") == ["NONE"]
    assert await fetch(scene, 0, group="") == [(7, "", "NONE")]


@pytest.mark.parametrize("version", COMMIT_VERSIONS[1:])
async def test_what_the_group_refuses_is_refused_to_all_lines(scene, version):
    scene = scene()
    fields = {"generation_id_or_member_epoch": 3, "member_id": "stranger"}
    lines = (0, 7, ""), (1, 7, "")
    assert await commit(scene, *lines, version=version, **fields) == ["ILLEGAL_GENERATION"] * 2


@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
async def test_another_broker_is_coordinator(scene, version):
    scene = scene(partitions=0)
    assert await commit(scene, (0, 7, ""), version=max(version, 1)) == ["NOT_COORDINATOR"]
    told = await fetch(scene, 0, version=version)
    assert told == ("NOT_COORDINATOR" if version >= 2 else [(-1, "", "NOT_COORDINATOR")])


async def test_a_retention_of_its_own_and_a_time_of_commit(scene):
    scene = scene()
    await commit(scene, (0, 7, ""), version=2, retention_time_ms=500)
    found = scene.groups.shard("g").offsets["g"].committed["events", 0]
    assert (found.committed_ms, found.expires_ms) == (NOW_MS, NOW_MS + 500)
    request = committing((0, 7, ""), version=1)
    request.topics[0].partitions[0].commit_timestamp = 99
    offset_commit.handle(scene.groups, scene.cluster, scene.old, called(request, version=1))
    found = scene.groups.shard("g").offsets["g"].committed["events", 0]
    assert (found.committed_ms, found.expires_ms) == (99, -1)


@pytest.mark.parametrize("version", [7, 8, 9])
async def test_what_a_transaction_may_change_is_told_only_to_those_who_do_not_mind(scene, version):
    scene = scene()
    await commit(scene, (0, 7, "half"), (1, 7, ""))
    offsets = scene.groups.shard("g").offsets["g"]
    offsets.commit_pending(9, ("events", 0), offsets.committed["events", 0])
    assert await fetch(scene, 0, version=version) == [(7, "half", "NONE")]
    assert await fetch(scene, 0, 1, version=version, require_stable=True) == [
        (-1, "", "UNSTABLE_OFFSET_COMMIT"),
        (7, "", "NONE"),
    ]


async def test_many_groups_at_once(scene):
    scene = scene()
    await commit(scene, (0, 7, ""), group="a")
    topics = [OffsetFetchRequest.Group.Topic(name="events", partition_indexes=[0])]
    groups = [OffsetFetchRequest.Group(group_id=each, topics=topics) for each in ("a", "b")]
    call = called(OffsetFetchRequest(groups=groups), version=8)
    response = offset_fetch.handle(scene.groups, scene.cluster, scene.old, call)
    told = [
        (each.group_id, each.topics[0].partitions[0].committed_offset) for each in response.groups
    ]
    assert told == [("a", 7), ("b", -1)]


async def test_nobody_is_told_before_it_is_replicated(scene):
    scene = scene(partitions=0)
    partition = scene.lead(replicas=(BROKER, OTHER))
    start = scene.hosting.background.start
    committed = start(commit(scene, (0, 7, "")))
    for _ in range(10):
        await asyncio.sleep(0)
    assert partition.log.end_offset == 1
    fetched = start(fetch(scene, 0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not committed.done()
    assert not fetched.done()
    partition.follower_fetched(OTHER, offset=1, start_offset=0)
    assert await committed == ["NONE"]
    assert await fetched == [(7, "", "NONE")]


@pytest.mark.parametrize("count", [1, MANY])
async def test_what_is_committed_while_a_fetch_waits_for_replicas_is_not_told(scene, count):
    scene = scene(partitions=0)
    scene.know("events", partitions=count)
    partition = scene.lead(replicas=(BROKER, OTHER))
    start = scene.hosting.background.start

    async def begun(asking):
        asked = start(asking)
        for _ in range(10):
            await asyncio.sleep(0)
        return asked

    await begun(commit(scene, *((index, 7, "") for index in range(count))))
    fetched = await begun(fetch(scene, *range(count)))
    replicated = partition.log.end_offset
    await begun(commit(scene, *((index, 8, "") for index in range(count))))
    assert partition.log.end_offset > replicated
    partition.follower_fetched(OTHER, offset=replicated, start_offset=0)
    assert await fetched == [(7, "", "NONE")] * count


async def test_one_that_is_not_replicated_in_time_is_not_known_to_be_committed(scene):
    scene = scene(partitions=0, commit_timeout_ms=1)
    scene.lead(replicas=(BROKER, OTHER))
    assert await commit(scene, (0, 7, "")) == ["REQUEST_TIMED_OUT"]
    assert await fetch(scene, 0) == "NOT_COORDINATOR"


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_refusal_of_a_commit_reaches_every_line(version):
    call = called(committing((0, 1, ""), (1, 1, ""), version=version), version=version)
    response = as_sent(offset_commit.refused(call, KafkaStorageError()), version=version)
    assert [each.error_code for each in response.topics[0].partitions] == [56, 56]


@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
def test_a_refusal_of_a_fetch_reaches_the_group(version):
    call = called(fetching((0, 1), version, "g"), version=version)
    response = as_sent(offset_fetch.refused(call, KafkaStorageError()), version=version)
    if version >= 8:
        assert response.groups[0].error_code == 56
    elif version >= 2:
        assert response.error_code == 56
    else:
        assert [each.error_code for each in response.topics[0].partitions] == [56, 56]


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
async def test_others_have_their_turns_while_many_offsets_are_told(scene, version):
    scene = scene()
    scene.know("events", partitions=MANY)
    await commit(scene, *((index, 7, "") for index in range(MANY)))
    request = fetching(range(MANY) if version < 2 else None, version, "g")
    fetching_all = called(request, version=version)
    telling = offset_fetch.handle(scene.groups, scene.cluster, scene.old, fetching_all)
    response, turns = await in_turns(telling)
    assert turns >= MANY
    told = response.groups[0] if version >= 8 else response
    assert len(told.topics[0].partitions) == MANY


async def test_what_is_committed_while_many_are_told_is_not_told(scene):
    scene = scene()
    scene.know("events", partitions=MANY)
    await commit(scene, *((index, 7, "") for index in range(MANY)))
    telling = offset_fetch.handle(
        scene.groups, scene.cluster, scene.old, called(fetching(None, 9, "g"))
    )
    await commit(scene, *((index, 8, "") for index in range(MANY)))
    (told,) = (await telling).groups
    assert {each.committed_offset for each in told.topics[0].partitions} == {7}


async def test_offsets_are_deleted_each_alone(scene):
    scene = scene()
    await commit(scene, (0, 7, ""), (1, 8, ""))
    partitions = [OffsetDeleteRequest.Topic.Partition(partition_index=index) for index in (1, 5)]
    topic = OffsetDeleteRequest.Topic(name="events", partitions=partitions)
    call = called(OffsetDeleteRequest(group_id="g", topics=[topic]), version=0)
    response = as_sent(offset_delete.handle(scene.groups, scene.cluster, call), version=0)
    assert [each.error_code for each in response.topics[0].partitions] == [0, 3]
    assert await fetch(scene) == [(7, "", "NONE")]


async def test_a_commit_is_one_small_record_and_answered_at_once(scene):
    scene = scene()
    call = called(committing((0, 7, ""), version=9), version=9)
    answer = offset_commit.handle(scene.groups, scene.cluster, scene.old, call)
    assert answer.topics[0].partitions[0].error_code == 0
    assert scene.groups.shard("g").log.is_replicated(Written(0, 0))
