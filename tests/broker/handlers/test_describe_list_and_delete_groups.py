"""DescribeGroups, ListGroups and DeleteGroups, in every version."""

import pytest

from odradek.broker.groups.committing import NewCommit, commit
from odradek.broker.groups.group import Committer
from odradek.broker.handlers import delete_groups, describe_groups, list_groups
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.protocol.api.delete_groups import DeleteGroupsRequest
from odradek.protocol.api.describe_groups import DescribeGroupsRequest
from odradek.protocol.api.list_groups import ListGroupsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from tests.broker.handlers.test_group_members import joined, synced
from tests.support.calls import as_sent, called, in_the_end, versions_of
from tests.support.group_coordinators import Coordinating, damage
from tests.support.turn_counting import MANY, in_turns

OTHER = 2
NOT_ASKED_FOR = -(2**31)


def keep_offsets(scene, group_id):
    commits = [NewCommit(("events", 0), 5, -1, "", 1)]
    commit(scene.groups.shard(group_id), group_id, Committer("", None, -1), commits)


async def prepared(path):
    """A group with a member, one that has only offsets."""
    scene = Coordinating(path)
    member = await joined(scene, 9)
    await synced(scene, member, 5)
    keep_offsets(scene, "offsets")
    return scene


def described(scene, version, *groups, **fields):
    call = called(DescribeGroupsRequest(groups=list(groups), **fields), version=version)
    return as_sent(describe_groups.handle(scene.groups, call), version=version).groups


@pytest.mark.parametrize("version", versions_of(DescribeGroupsRequest))
async def test_a_group_is_shown_with_its_members(tmp_path, version):
    (shown,) = described(await prepared(tmp_path), version, "g")
    assert (shown.error_code, shown.group_state, shown.protocol_type) == (0, "Stable", "consumer")
    assert shown.protocol_data == "range"
    (member,) = shown.members
    assert (member.client_id, member.client_host) == ("a test", "/127.0.0.1")
    assert member.member_assignment == b"all"
    assert member.member_metadata.startswith(b"\0\0")


@pytest.mark.parametrize("version", versions_of(DescribeGroupsRequest))
async def test_one_that_only_has_offsets_is_empty_and_one_that_is_not_there_dead(tmp_path, version):
    kept, absent = described(await prepared(tmp_path), version, "offsets", "absent")
    assert (kept.error_code, kept.group_state) == (0, "Empty")
    expected = "NONE" if version < 6 else "GROUP_ID_NOT_FOUND"
    assert (ErrorCode.of(absent.error_code).name, absent.group_state) == (expected, "Dead")
    if version >= 6:
        assert absent.error_message == "Group absent not found."


async def test_before_it_is_settled_members_are_shown_without_what_they_told(tmp_path):
    scene = Coordinating(tmp_path)
    await joined(scene, 9)
    (shown,) = described(scene, 5, "g")
    assert (shown.group_state, shown.protocol_data) == ("CompletingRebalance", "")
    assert (shown.members[0].member_metadata, shown.members[0].member_assignment) == (b"", b"")


async def test_what_may_be_done_is_told_if_it_is_asked_for(tmp_path):
    scene = await prepared(tmp_path)
    (shown,) = described(scene, 5, "g")
    assert shown.authorized_operations == NOT_ASKED_FOR
    (shown,) = described(scene, 5, "g", include_authorized_operations=True)
    assert shown.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8


@pytest.mark.usefixtures("short_turns")
async def test_others_have_their_turns_while_many_are_shown(tmp_path):
    call = called(DescribeGroupsRequest(groups=["g", "offsets"] * MANY))
    scene = await prepared(tmp_path)
    response, turns = await in_turns(describe_groups.handle(scene.groups, call))
    assert turns > MANY
    assert [each.group_state for each in response.groups] == ["Stable", "Empty"] * MANY


async def test_another_broker_is_asked_for_others(tmp_path):
    (shown,) = described(Coordinating(tmp_path, partitions=0), 5, "g")
    assert (ErrorCode.of(shown.error_code).name, shown.group_state) == ("NOT_COORDINATOR", "")


@pytest.mark.parametrize("version", versions_of(DescribeGroupsRequest))
async def test_of_one_that_cannot_be_loaded_the_reason_is_told_where_there_are_words(
    tmp_path, version
):
    scene = await prepared(tmp_path)
    damage(scene.hosting.replicas.partition(CONSUMER_OFFSETS, 0))
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    await scene.settled()
    (shown,) = described(scene, version, "g")
    assert (ErrorCode.of(shown.error_code).name, shown.group_state) == ("NOT_COORDINATOR", "")
    expected = None if version < 6 else "__consumer_offsets-0 cannot be loaded"
    assert shown.error_message == expected


def listed(scene, version, **filters):
    call = called(ListGroupsRequest(**filters), version=version)
    response = as_sent(list_groups.handle(scene.groups, call), version=version)
    assert response.error_code == 0
    return {each.group_id: each for each in response.groups}


@pytest.mark.parametrize("version", versions_of(ListGroupsRequest))
async def test_all_groups_are_listed(tmp_path, version):
    found = listed(await prepared(tmp_path), version)
    assert {name: each.protocol_type for name, each in found.items()} == {
        "g": "consumer",
        "offsets": "",
    }
    if version >= 4:
        assert (found["g"].group_state, found["offsets"].group_state) == ("Stable", "Empty")
    if version >= 5:
        assert {each.group_type for each in found.values()} == {"classic"}


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"states_filter": ["Stable"]}, {"g"}),
        ({"states_filter": ["sTABLE", "empty"]}, {"g", "offsets"}),
        ({"states_filter": ["Dead"]}, set()),
        ({"types_filter": ["Classic"]}, {"g", "offsets"}),
        ({"types_filter": ["consumer"]}, set()),
        ({"types_filter": ["classic"], "states_filter": ["Empty"]}, {"offsets"}),
        ({"types_filter": ["whatever"]}, set()),
    ],
)
async def test_or_those_of_some_states_and_types(tmp_path, filters, names):
    assert set(listed(await prepared(tmp_path), 5, **filters)) == names


async def test_many_groups_are_listed_in_turns(tmp_path):
    scene = Coordinating(tmp_path)
    names = {f"group-{number}" for number in range(500)}
    for name in names:
        keep_offsets(scene, name)
    call = called(ListGroupsRequest(), version=5)
    response = await in_the_end(list_groups.handle(scene.groups, call))
    assert {each.group_id for each in response.groups} == names


async def test_a_group_with_members_and_offsets_is_listed_once(tmp_path):
    scene = Coordinating(tmp_path)
    keep_offsets(scene, "g")
    await joined(scene, 9)
    assert set(listed(scene, 5)) == {"g"}


@pytest.mark.parametrize("version", versions_of(DeleteGroupsRequest))
async def test_groups_are_deleted_each_alone(tmp_path, version):
    scene = await prepared(tmp_path)
    names = ["g", "offsets", "absent", "offsets"]
    call = called(DeleteGroupsRequest(groups_names=names), version=version)
    response = as_sent(delete_groups.handle(scene.groups, call), version=version)
    told = {each.group_id: ErrorCode.of(each.error_code).name for each in response.results}
    assert told == {"g": "NON_EMPTY_GROUP", "offsets": "NONE", "absent": "GROUP_ID_NOT_FOUND"}
    assert set(listed(scene, 5)) == {"g"}


def test_refusals_reach_every_group():
    call = called(DescribeGroupsRequest(groups=["a", "b"]))
    shown = describe_groups.refused(call, KafkaStorageError()).groups
    assert [each.error_code for each in shown] == [56, 56]
    call = called(DeleteGroupsRequest(groups_names=["a", "b"]))
    lines = delete_groups.refused(call, KafkaStorageError()).results
    assert [each.error_code for each in lines] == [56, 56]
