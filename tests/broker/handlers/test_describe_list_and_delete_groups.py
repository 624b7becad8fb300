"""DescribeGroups, ListGroups and DeleteGroups, in every version."""

import pytest

from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_commits import OffsetCommitEntry, commit_offsets
from odradek.broker.handlers import delete_groups, describe_groups, list_groups
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.protocol.api.delete_groups import DeleteGroupsRequest
from odradek.protocol.api.describe_groups import DescribeGroupsRequest
from odradek.protocol.api.list_groups import ListGroupsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from tests.broker.handlers.test_group_members import join, sync
from tests.support.calls import as_sent, called, in_the_end, versions_of
from tests.support.group_coordinators import Coordinating, damage
from tests.support.turn_counting import MANY, in_turns

OTHER = 2
NOT_REQUESTED = -(2**31)


def commit_one_offset(scene, group_id):
    commits = [OffsetCommitEntry(("events", 0), 5, -1, "", 1)]
    commit_offsets(scene.groups.shard(group_id), group_id, Committer("", None, -1), commits)


async def scene_with_groups(path):
    """Prepare a group with a member and a group that has only offsets."""
    scene = Coordinating(path)
    member = await join(scene, 9)
    await sync(scene, member, 5)
    commit_one_offset(scene, "offsets")
    return scene


def describe(scene, version, *groups, **fields):
    request = called(DescribeGroupsRequest(groups=list(groups), **fields), version=version)
    return as_sent(describe_groups.handle(scene.groups, request), version=version).groups


@pytest.mark.parametrize("version", versions_of(DescribeGroupsRequest))
async def test_group_is_described_with_its_members(tmp_path, version):
    (group,) = describe(await scene_with_groups(tmp_path), version, "g")
    assert (group.error_code, group.group_state, group.protocol_type) == (0, "Stable", "consumer")
    assert group.protocol_data == "range"
    (member,) = group.members
    assert (member.client_id, member.client_host) == ("a test", "/127.0.0.1")
    assert member.member_assignment == b"all"
    assert member.member_metadata.startswith(b"\0\0")


@pytest.mark.parametrize("version", versions_of(DescribeGroupsRequest))
async def test_group_with_only_offsets_is_empty_and_unknown_group_is_dead(tmp_path, version):
    offsets_only, absent = describe(await scene_with_groups(tmp_path), version, "offsets", "absent")
    assert (offsets_only.error_code, offsets_only.group_state) == (0, "Empty")
    expected = "NONE" if version < 6 else "GROUP_ID_NOT_FOUND"
    assert (ErrorCode.for_code(absent.error_code).name, absent.group_state) == (expected, "Dead")
    if version >= 6:
        assert absent.error_message == "Group absent not found."


async def test_members_are_described_without_metadata_during_a_rebalance(tmp_path):
    scene = Coordinating(tmp_path)
    await join(scene, 9)
    (group,) = describe(scene, 5, "g")
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert (group.members[0].member_metadata, group.members[0].member_assignment) == (b"", b"")


async def test_authorized_operations_are_returned_on_request(tmp_path):
    scene = await scene_with_groups(tmp_path)
    (group,) = describe(scene, 5, "g")
    assert group.authorized_operations == NOT_REQUESTED
    (group,) = describe(scene, 5, "g", include_authorized_operations=True)
    assert group.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8


@pytest.mark.usefixtures("short_turns")
async def test_describing_many_groups_yields_to_the_event_loop(tmp_path):
    request = called(DescribeGroupsRequest(groups=["g", "offsets"] * MANY))
    scene = await scene_with_groups(tmp_path)
    response, slice_count = await in_turns(describe_groups.handle(scene.groups, request))
    assert slice_count > MANY
    assert [each.group_state for each in response.groups] == ["Stable", "Empty"] * MANY


async def test_group_of_another_coordinator_is_not_described(tmp_path):
    (group,) = describe(Coordinating(tmp_path, partitions=0), 5, "g")
    assert (ErrorCode.for_code(group.error_code).name, group.group_state) == ("NOT_COORDINATOR", "")


@pytest.mark.parametrize("version", versions_of(DescribeGroupsRequest))
async def test_load_failure_is_explained_from_version_6_on(tmp_path, version):
    scene = await scene_with_groups(tmp_path)
    damage(scene.hosting.replicas.partition(CONSUMER_OFFSETS, 0))
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    await scene.settled()
    (group,) = describe(scene, version, "g")
    assert (ErrorCode.for_code(group.error_code).name, group.group_state) == ("NOT_COORDINATOR", "")
    expected = None if version < 6 else "__consumer_offsets-0 cannot be loaded"
    assert group.error_message == expected


def list_all(scene, version, **filters):
    request = called(ListGroupsRequest(**filters), version=version)
    response = as_sent(list_groups.handle(scene.groups, request), version=version)
    assert response.error_code == 0
    return {each.group_id: each for each in response.groups}


@pytest.mark.parametrize("version", versions_of(ListGroupsRequest))
async def test_all_groups_are_listed(tmp_path, version):
    groups = list_all(await scene_with_groups(tmp_path), version)
    assert {name: each.protocol_type for name, each in groups.items()} == {
        "g": "consumer",
        "offsets": "",
    }
    if version >= 4:
        assert (groups["g"].group_state, groups["offsets"].group_state) == ("Stable", "Empty")
    if version >= 5:
        assert {each.group_type for each in groups.values()} == {"classic"}


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
async def test_groups_are_filtered_by_state_and_type(tmp_path, filters, names):
    assert set(list_all(await scene_with_groups(tmp_path), 5, **filters)) == names


async def test_many_groups_are_listed_in_time_slices(tmp_path):
    scene = Coordinating(tmp_path)
    names = {f"group-{number}" for number in range(500)}
    for name in names:
        commit_one_offset(scene, name)
    request = called(ListGroupsRequest(), version=5)
    response = await in_the_end(list_groups.handle(scene.groups, request))
    assert {each.group_id for each in response.groups} == names


async def test_group_with_members_and_offsets_is_listed_once(tmp_path):
    scene = Coordinating(tmp_path)
    commit_one_offset(scene, "g")
    await join(scene, 9)
    assert set(list_all(scene, 5)) == {"g"}


@pytest.mark.parametrize("version", versions_of(DeleteGroupsRequest))
async def test_each_group_is_deleted_independently(tmp_path, version):
    scene = await scene_with_groups(tmp_path)
    names = ["g", "offsets", "absent", "offsets"]
    request = called(DeleteGroupsRequest(groups_names=names), version=version)
    response = as_sent(delete_groups.handle(scene.groups, request), version=version)
    errors = {each.group_id: ErrorCode.for_code(each.error_code).name for each in response.results}
    assert errors == {"g": "NON_EMPTY_GROUP", "offsets": "NONE", "absent": "GROUP_ID_NOT_FOUND"}
    assert set(list_all(scene, 5)) == {"g"}


def test_request_error_is_returned_for_every_group():
    request = called(DescribeGroupsRequest(groups=["a", "b"]))
    groups = describe_groups.error_response(request, KafkaStorageError()).groups
    assert [each.error_code for each in groups] == [56, 56]
    request = called(DeleteGroupsRequest(groups_names=["a", "b"]))
    results = delete_groups.error_response(request, KafkaStorageError()).results
    assert [each.error_code for each in results] == [56, 56]
