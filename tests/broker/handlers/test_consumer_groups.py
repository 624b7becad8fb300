"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: a member of KIP-848, in every version."""

import asyncio
from dataclasses import replace

import pytest

from odradek.broker.groups.consumer import expressions
from odradek.broker.groups.consumer.topics import TopicsLens
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
        topics = TopicsLens(lambda: self.cluster.picture)
        self.groups.world = replace(self.groups.world, topics=topics)
        for shard in self.groups:
            shard.world = self.groups.world


async def answer(module, scene, request, version):
    call = called(request, version=version)
    try:
        answered = await in_the_end(module.handle(scene.groups, call))
    except KafkaError as refusal:
        answered = module.refused(call, refusal)
    return as_sent(answered, version=version)


def beating(member_id="m", epoch=0, **said):
    joining = {"rebalance_timeout_ms": 5_000, "topic_partitions": []} if not epoch else {}
    if not epoch and "subscribed_topic_regex" not in said:
        joining["subscribed_topic_names"] = ["a"]
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **joining | said
    )


async def beaten(scene, version, *args, **said):
    return await answer(consumer_group_heartbeat, scene, beating(*args, **said), version)


def error(response):
    return ErrorCode.of(response.error_code).name


@HEARTBEATS
async def test_a_member_joins_is_assigned_stays_and_leaves(tmp_path, version):
    scene = Scene(tmp_path)
    joined = await beaten(scene, version)
    assert error(joined) == "NONE"
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("m", 1, 5_000)
    (given,) = joined.assignment.topic_partitions
    assert (given.topic_id, given.partitions) == (topic_id("a"), [0, 1])
    stays = await beaten(scene, version, "m", 1)
    assert (error(stays), stays.assignment) == ("NONE", None)
    leaves = await beaten(scene, version, "m", -1)
    assert (error(leaves), leaves.member_epoch, leaves.heartbeat_interval_ms) == ("NONE", -1, 0)


@HEARTBEATS
async def test_ids_are_made_for_clients_of_version_0_alone(tmp_path, version):
    scene = Scene(tmp_path)
    joined = await beaten(scene, version, "")
    if version == 0:
        assert joined.member_id
        assert joined.member_id in scene.groups.shard("g").groups["g"].group.members
    else:
        assert error(joined) == "INVALID_REQUEST"


@HEARTBEATS
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"epoch": 5}, "FENCED_MEMBER_EPOCH"),
        ({"member_id": "x", "epoch": 1}, "UNKNOWN_MEMBER_ID"),
        ({"epoch": 1, "server_assignor": "sticky"}, "UNSUPPORTED_ASSIGNOR"),
        ({"epoch": -3}, "INVALID_REQUEST"),
    ],
)
async def test_refusals_have_a_code_and_words(tmp_path, version, said, expected):
    scene = Scene(tmp_path)
    await beaten(scene, version)
    refused = await beaten(scene, version, **said)
    assert error(refused) == expected
    assert refused.error_message
    assert (refused.member_id, refused.member_epoch, refused.assignment) == (None, 0, None)


async def test_a_senseless_expression_is_refused(tmp_path):
    refused = await beaten(Scene(tmp_path), 1, subscribed_topic_regex="(")
    assert error(refused) == "INVALID_REGULAR_EXPRESSION"


@HEARTBEATS
async def test_a_broker_that_does_not_coordinate_the_group_says_so(tmp_path, version):
    scene = Scene(tmp_path)
    call = called(beating(), version=version)
    refused = consumer_group_heartbeat.refused(call, NotCoordinator())
    assert error(as_sent(refused, version=version)) == "NOT_COORDINATOR"
    assert not scene.groups.shard("g").groups


async def test_members_are_told_the_interval_of_their_group(tmp_path):
    scene = Scene(tmp_path)
    own = {"g": OneGroupSettings(heartbeat_interval_ms=9_000)}
    scene.groups.world = replace(scene.groups.world, configured=own)
    assert (await beaten(scene, 1)).heartbeat_interval_ms == 9_000


# What is shown


async def described(scene, version, *names, **asked):
    request = ConsumerGroupDescribeRequest(
        group_ids=list(names), **{"include_authorized_operations": False} | asked
    )
    return (await answer(consumer_group_describe, scene, request, version)).groups


@DESCRIPTIONS
async def test_a_group_is_described_with_its_members(tmp_path, version):
    scene = Scene(tmp_path)
    await beaten(scene, 1, instance_id="i", rack_id="r", server_assignor="range")
    (group,) = await described(scene, version, "g")
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "range")
    assert (group.group_epoch, group.assignment_epoch) == (1, 1)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
    assert (member.client_id, member.client_host) == ("a test", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["a"], "")
    assert member.assignment == member.target_assignment
    (given,) = member.assignment.topic_partitions
    assert (given.topic_name, given.partitions) == ("a", [0, 1])
    assert member.member_type == (1 if version else -1)


@DESCRIPTIONS
async def test_a_group_that_there_is_not_is_shown_as_such(tmp_path, version):
    (group,) = await described(Scene(tmp_path), version, "g")
    assert error(group) == "GROUP_ID_NOT_FOUND"
    assert group.error_message


async def test_a_group_that_is_named_twice_is_described_twice(tmp_path):
    scene = Scene(tmp_path)
    await beaten(scene, 1)
    shown = await described(scene, 1, "g", "none", "g")
    assert [each.group_id for each in shown] == ["g", "none", "g"]
    assert shown[0] == shown[2]


async def test_what_may_be_done_with_a_group_is_told_on_demand(tmp_path):
    scene = Scene(tmp_path)
    await beaten(scene, 1)
    (silent,) = await described(scene, 1, "g")
    (told,) = await described(scene, 1, "g", include_authorized_operations=True)
    assert silent.authorized_operations == -(2**31)
    assert told.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


async def test_both_kinds_are_listed_and_only_classic_ones_described_as_such(tmp_path):
    scene = Scene(tmp_path)
    await beaten(scene, 1)
    listed = await answer(list_groups, scene, ListGroupsRequest(), 5)
    (shown,) = listed.groups
    assert (shown.group_id, shown.protocol_type) == ("g", "consumer")
    assert (shown.group_state, shown.group_type) == ("Stable", "consumer")
    of_other_types = await answer(
        list_groups, scene, ListGroupsRequest(types_filter=["classic"]), 5
    )
    assert of_other_types.groups == []
    request = DescribeGroupsRequest(groups=["g"])
    (old,) = (await answer(describe_groups, scene, request, 5)).groups
    assert (old.error_code, old.group_state) == (0, "Dead")


async def test_an_empty_group_is_deleted_and_one_with_members_is_not(tmp_path):
    scene = Scene(tmp_path)
    await beaten(scene, 1)
    request = DeleteGroupsRequest(groups_names=["g"])
    (refused,) = (await answer(delete_groups, scene, request, 2)).results
    assert error(refused) == "NON_EMPTY_GROUP"
    await beaten(scene, 1, "m", -1)
    (deleted,) = (await answer(delete_groups, scene, request, 2)).results
    assert error(deleted) == "NONE"
    assert error((await described(scene, 1, "g"))[0]) == "GROUP_ID_NOT_FOUND"


# What is much


def with_many_topics(path, count):
    scene = Scene(path)
    scene.cluster = cluster(update({f"t{number}": [state(0)] for number in range(count)}))
    return scene


@pytest.mark.usefixtures("short_turns")
async def test_others_have_their_turns_while_many_names_are_matched(tmp_path):
    scene = with_many_topics(tmp_path, MANY)
    joining = called(beating(subscribed_topic_regex="t1."))
    joined, turns = await in_turns(consumer_group_heartbeat.handle(scene.groups, joining))
    assert turns >= MANY
    assert len(joined.assignment.topic_partitions) == 10
    second = consumer_group_heartbeat.handle(
        scene.groups, called(beating("m2", subscribed_topic_regex="t1."))
    )
    assert error(second) == "NONE"


@pytest.mark.usefixtures("short_turns")
async def test_names_that_come_are_matched_in_turns_for_members_that_stay(tmp_path):
    scene = with_many_topics(tmp_path, 1)
    await beaten(scene, 1, subscribed_topic_regex=".*9")
    scene.cluster = cluster(update({f"t{number}": [state(0)] for number in range(200)}))
    staying = consumer_group_heartbeat.handle(scene.groups, called(beating("m", 1)))
    stayed, turns = await in_turns(staying)
    assert turns > MANY
    assert len(stayed.assignment.topic_partitions) == 20


async def test_more_expressions_than_are_kept_for_nobody_are_matched_once(tmp_path, monkeypatch):
    monkeypatch.setattr(expressions, "EXPRESSIONS_KEPT", 3)
    scene = with_many_topics(tmp_path, MANY)
    for number in range(6):
        await beaten(scene, 1, f"m{number}", subscribed_topic_regex=f"t{number}.*")
    scene.cluster = cluster(update({f"t{number}": [state(0)] for number in range(2 * MANY)}))
    async with asyncio.timeout(10):
        stayed = await beaten(scene, 1, "m0", 1)
    assert error(stayed) == "NONE"
    assert scene.groups.shard("g").groups["g"].group.expressions.keys() == {
        f"t{number}.*" for number in range(6)
    }
    # All are known by now.
    assert isinstance(
        consumer_group_heartbeat.handle(scene.groups, called(beating("m1", 2))),
        consumer_group_heartbeat.Response,
    )


async def test_expressions_that_members_no_longer_have_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(expressions, "EXPRESSIONS_KEPT", 3)
    scene = Scene(tmp_path)
    epoch = 0
    for number in range(20):
        stayed = await beaten(scene, 1, "m", epoch, subscribed_topic_regex=f"a{number}")
        epoch = stayed.member_epoch
    assert epoch == 20
    assert len(scene.groups.world.topics.expressions) <= 4


@pytest.mark.usefixtures("short_turns")
async def test_others_have_their_turns_while_a_large_group_is_described(tmp_path):
    scene = with_many_topics(tmp_path, MANY)
    for member in ("m1", "m2"):
        await beaten(scene, 1, member, subscribed_topic_regex=".*")
    request = ConsumerGroupDescribeRequest(group_ids=["g"] * 5, include_authorized_operations=False)
    describing = consumer_group_describe.handle(scene.groups, called(request))
    shown, turns = await in_turns(describing)
    assert turns > 10
    assert [len(each.members) for each in shown.groups] == [2] * 5
    assert shown.groups[0] == shown.groups[4]


async def test_a_heartbeat_that_is_not_replicated_in_time_is_to_be_sent_again(tmp_path):
    scene = Scene(tmp_path, partitions=0, commit_timeout_ms=1)
    scene.coordinating.lead(replicas=(BROKER, BROKER + 1))
    assert error(await beaten(scene, 1)) == "COORDINATOR_NOT_AVAILABLE"
