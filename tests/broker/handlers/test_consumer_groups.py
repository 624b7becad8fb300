"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848), in every version."""

import asyncio
from dataclasses import replace

import pytest

from odradek.broker.groups.consumer import topic_regex_cache
from odradek.broker.groups.consumer.topics import TopicsProvider
from odradek.broker.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    list_groups,
)
from odradek.broker.settings.consumer_groups import OneGroupSettings
from odradek.protocol.api.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.api.delete_groups import DeleteGroupsRequest
from odradek.protocol.api.describe_groups import DescribeGroupsRequest
from odradek.protocol.api.list_groups import ListGroupsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, NotCoordinator
from tests.support.calls import as_sent, called, in_the_end, versions_of
from tests.support.group_coordinators import Coordinating
from tests.support.hosted_partitions import BROKER
from tests.support.metadata_updates import cluster, state, topic_id, update
from tests.support.turn_counting import MANY, in_turns

HEARTBEATS = pytest.mark.parametrize("version", versions_of(ConsumerGroupHeartbeatRequest))
DESCRIPTIONS = pytest.mark.parametrize("version", versions_of(ConsumerGroupDescribeRequest))


class Scene:
    """A coordinator in a cluster with a topic of two partitions."""

    def __init__(self, path, **options):
        self.coordinating = Coordinating(path, **options)
        self.cluster = cluster(update({"a": [state(0), state(1)]}))
        self.groups = self.coordinating.groups
        topics = TopicsProvider(lambda: self.cluster.snapshot)
        self.groups.context = replace(self.groups.context, topics_provider=topics)
        for shard in self.groups:
            shard.context = self.groups.context


async def send(module, scene, body, version):
    request = called(body, version=version)
    try:
        response = await in_the_end(module.handle(scene.groups, request))
    except KafkaError as kafka_error:
        response = module.error_response(request, kafka_error)
    return as_sent(response, version=version)


def heartbeat_request(member_id="m", epoch=0, **fields):
    joining = {"rebalance_timeout_ms": 5_000, "topic_partitions": []} if not epoch else {}
    if not epoch and "subscribed_topic_regex" not in fields:
        joining["subscribed_topic_names"] = ["a"]
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **joining | fields
    )


async def heartbeat(scene, version, *args, **fields):
    return await send(consumer_group_heartbeat, scene, heartbeat_request(*args, **fields), version)


def error(response):
    return ErrorCode.for_code(response.error_code).name


@HEARTBEATS
async def test_member_joins_gets_an_assignment_heartbeats_and_leaves(tmp_path, version):
    scene = Scene(tmp_path)
    joined = await heartbeat(scene, version)
    assert error(joined) == "NONE"
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("m", 1, 5_000)
    (assigned,) = joined.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic_id("a"), [0, 1])
    stays = await heartbeat(scene, version, "m", 1)
    assert (error(stays), stays.assignment) == ("NONE", None)
    leaves = await heartbeat(scene, version, "m", -1)
    assert (error(leaves), leaves.member_epoch, leaves.heartbeat_interval_ms) == ("NONE", -1, 0)


@HEARTBEATS
async def test_member_id_is_generated_only_in_version_0(tmp_path, version):
    scene = Scene(tmp_path)
    joined = await heartbeat(scene, version, "")
    if version == 0:
        assert joined.member_id
        assert joined.member_id in scene.groups.shard("g").groups["g"].group.members
    else:
        assert error(joined) == "INVALID_REQUEST"


@HEARTBEATS
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"epoch": 5}, "FENCED_MEMBER_EPOCH"),
        ({"member_id": "x", "epoch": 1}, "UNKNOWN_MEMBER_ID"),
        ({"epoch": 1, "server_assignor": "sticky"}, "UNSUPPORTED_ASSIGNOR"),
        ({"epoch": -3}, "INVALID_REQUEST"),
    ],
)
async def test_rejected_heartbeat_has_an_error_code_and_message(
    tmp_path, version, fields, expected
):
    scene = Scene(tmp_path)
    await heartbeat(scene, version)
    response = await heartbeat(scene, version, **fields)
    assert error(response) == expected
    assert response.error_message
    assert (response.member_id, response.member_epoch, response.assignment) == (None, 0, None)


async def test_invalid_topic_regex_is_rejected(tmp_path):
    response = await heartbeat(Scene(tmp_path), 1, subscribed_topic_regex="(")
    assert error(response) == "INVALID_REGULAR_EXPRESSION"


@HEARTBEATS
async def test_not_coordinator_error_is_returned(tmp_path, version):
    scene = Scene(tmp_path)
    request = called(heartbeat_request(), version=version)
    response = consumer_group_heartbeat.error_response(request, NotCoordinator())
    assert error(as_sent(response, version=version)) == "NOT_COORDINATOR"
    assert not scene.groups.shard("g").groups


async def test_heartbeat_interval_of_the_group_is_returned(tmp_path):
    scene = Scene(tmp_path)
    group_configs = {"g": OneGroupSettings(heartbeat_interval_ms=9_000)}
    scene.groups.context = replace(scene.groups.context, group_configs=group_configs)
    assert (await heartbeat(scene, 1)).heartbeat_interval_ms == 9_000


# Describe, list and delete


async def describe(scene, version, *names, **options):
    request = ConsumerGroupDescribeRequest(
        group_ids=list(names), **{"include_authorized_operations": False} | options
    )
    return (await send(consumer_group_describe, scene, request, version)).groups


@DESCRIPTIONS
async def test_group_is_described_with_its_members(tmp_path, version):
    scene = Scene(tmp_path)
    await heartbeat(scene, 1, instance_id="i", rack_id="r", server_assignor="range")
    (group,) = await describe(scene, version, "g")
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "range")
    assert (group.group_epoch, group.assignment_epoch) == (1, 1)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
    assert (member.client_id, member.client_host) == ("a test", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["a"], "")
    assert member.assignment == member.target_assignment
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("a", [0, 1])
    assert member.member_type == (1 if version else -1)


@DESCRIPTIONS
async def test_unknown_group_is_described_as_not_found(tmp_path, version):
    (group,) = await describe(Scene(tmp_path), version, "g")
    assert error(group) == "GROUP_ID_NOT_FOUND"
    assert group.error_message


async def test_duplicate_group_id_is_described_twice(tmp_path):
    scene = Scene(tmp_path)
    await heartbeat(scene, 1)
    groups = await describe(scene, 1, "g", "none", "g")
    assert [each.group_id for each in groups] == ["g", "none", "g"]
    assert groups[0] == groups[2]


async def test_authorized_operations_are_returned_on_request(tmp_path):
    scene = Scene(tmp_path)
    await heartbeat(scene, 1)
    (without_operations,) = await describe(scene, 1, "g")
    (with_operations,) = await describe(scene, 1, "g", include_authorized_operations=True)
    assert without_operations.authorized_operations == -(2**31)
    assert with_operations.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


async def test_consumer_group_is_listed_by_type_and_described_as_a_dead_classic_group(tmp_path):
    scene = Scene(tmp_path)
    await heartbeat(scene, 1)
    response = await send(list_groups, scene, ListGroupsRequest(), 5)
    (group,) = response.groups
    assert (group.group_id, group.protocol_type) == ("g", "consumer")
    assert (group.group_state, group.group_type) == ("Stable", "consumer")
    of_other_types = await send(list_groups, scene, ListGroupsRequest(types_filter=["classic"]), 5)
    assert of_other_types.groups == []
    request = DescribeGroupsRequest(groups=["g"])
    (described_group,) = (await send(describe_groups, scene, request, 5)).groups
    assert (described_group.error_code, described_group.group_state) == (0, "Dead")


async def test_only_an_empty_group_is_deleted(tmp_path):
    scene = Scene(tmp_path)
    await heartbeat(scene, 1)
    request = DeleteGroupsRequest(groups_names=["g"])
    (rejected,) = (await send(delete_groups, scene, request, 2)).results
    assert error(rejected) == "NON_EMPTY_GROUP"
    await heartbeat(scene, 1, "m", -1)
    (deleted,) = (await send(delete_groups, scene, request, 2)).results
    assert error(deleted) == "NONE"
    assert error((await describe(scene, 1, "g"))[0]) == "GROUP_ID_NOT_FOUND"


# Many topics and regexes


def scene_with_topics(path, count):
    scene = Scene(path)
    scene.cluster = cluster(update({f"t{number}": [state(0)] for number in range(count)}))
    return scene


@pytest.mark.usefixtures("short_turns")
async def test_matching_a_regex_with_many_topics_yields_to_the_event_loop(tmp_path):
    scene = scene_with_topics(tmp_path, MANY)
    request = called(heartbeat_request(subscribed_topic_regex="t1."))
    joined, slice_count = await in_turns(consumer_group_heartbeat.handle(scene.groups, request))
    assert slice_count >= MANY
    assert len(joined.assignment.topic_partitions) == 10
    second = consumer_group_heartbeat.handle(
        scene.groups, called(heartbeat_request("m2", subscribed_topic_regex="t1."))
    )
    assert error(second) == "NONE"


@pytest.mark.usefixtures("short_turns")
async def test_matching_new_topics_at_a_heartbeat_yields_to_the_event_loop(tmp_path):
    scene = scene_with_topics(tmp_path, 1)
    await heartbeat(scene, 1, subscribed_topic_regex=".*9")
    scene.cluster = cluster(update({f"t{number}": [state(0)] for number in range(200)}))
    pending = consumer_group_heartbeat.handle(scene.groups, called(heartbeat_request("m", 1)))
    response, slice_count = await in_turns(pending)
    assert slice_count > MANY
    assert len(response.assignment.topic_partitions) == 20


async def test_more_regexes_than_the_cache_limit_are_each_resolved_once(tmp_path, monkeypatch):
    monkeypatch.setattr(topic_regex_cache, "MAX_CACHED_REGEXES", 3)
    scene = scene_with_topics(tmp_path, MANY)
    for number in range(6):
        await heartbeat(scene, 1, f"m{number}", subscribed_topic_regex=f"t{number}.*")
    scene.cluster = cluster(update({f"t{number}": [state(0)] for number in range(2 * MANY)}))
    async with asyncio.timeout(10):
        response = await heartbeat(scene, 1, "m0", 1)
    assert error(response) == "NONE"
    assert scene.groups.shard("g").groups["g"].group.resolved_regexes.keys() == {
        f"t{number}.*" for number in range(6)
    }
    # All regexes are resolved now, so the response is immediate.
    assert isinstance(
        consumer_group_heartbeat.handle(scene.groups, called(heartbeat_request("m1", 2))),
        consumer_group_heartbeat.Response,
    )


async def test_regexes_without_members_are_evicted_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(topic_regex_cache, "MAX_CACHED_REGEXES", 3)
    scene = Scene(tmp_path)
    epoch = 0
    for number in range(20):
        response = await heartbeat(scene, 1, "m", epoch, subscribed_topic_regex=f"a{number}")
        epoch = response.member_epoch
    assert epoch == 20
    assert len(scene.groups.context.topics_provider.regex_cache) <= 4


@pytest.mark.usefixtures("short_turns")
async def test_describing_a_large_group_yields_to_the_event_loop(tmp_path):
    scene = scene_with_topics(tmp_path, MANY)
    for member in ("m1", "m2"):
        await heartbeat(scene, 1, member, subscribed_topic_regex=".*")
    request = ConsumerGroupDescribeRequest(group_ids=["g"] * 5, include_authorized_operations=False)
    pending = consumer_group_describe.handle(scene.groups, called(request))
    response, slice_count = await in_turns(pending)
    assert slice_count > 10
    assert [len(each.members) for each in response.groups] == [2] * 5
    assert response.groups[0] == response.groups[4]


async def test_heartbeat_not_replicated_in_time_returns_a_retriable_error(tmp_path):
    scene = Scene(tmp_path, partitions=0, commit_timeout_ms=1)
    scene.coordinating.lead(replicas=(BROKER, BROKER + 1))
    assert error(await heartbeat(scene, 1)) == "COORDINATOR_NOT_AVAILABLE"
