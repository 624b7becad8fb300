"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: a member's life, in every version."""

import pytest

from odradek.broker.handlers import heartbeat, join_group, leave_group, sync_group
from odradek.protocol.api.heartbeat import HeartbeatRequest
from odradek.protocol.api.join_group import JoinGroupRequest
from odradek.protocol.api.leave_group import LeaveGroupRequest
from odradek.protocol.api.sync_group import SyncGroupRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    CoordinatorLoadInProgress,
    KafkaError,
    NotCoordinator,
)
from tests.support.calls import as_sent, called, in_the_end, versions_of
from tests.support.group_coordinators import Coordinating

Protocol = JoinGroupRequest.Protocol
SESSION_MS = 10_000


def joining(member_id="", *, group_id="g", **fields):
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[Protocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")],
        **fields,
    )


async def answer(module, scene, request, version):
    call = called(request, version=version)
    try:
        answered = await in_the_end(module.handle(scene.groups, call))
    except KafkaError as refusal:
        answered = module.refused(call, refusal)
    return as_sent(answered, version=version)


async def joined(scene, version, **fields):
    """The only member of a group, once it has been through a rebalance."""
    first = await answer(join_group, scene, joining(**fields), version)
    if first.error_code == ErrorCode.MEMBER_ID_REQUIRED.code:
        return await answer(join_group, scene, joining(first.member_id, **fields), version)
    return first


def error(response):
    return ErrorCode.of(response.error_code).name


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
async def test_a_member_joins_and_is_told_who_is_there(tmp_path, version):
    scene = Coordinating(tmp_path)
    response = await joined(scene, version)
    assert error(response) == "NONE"
    assert (response.generation_id, response.protocol_name) == (1, "range")
    assert response.leader == response.member_id
    assert [each.member_id for each in response.members] == [response.member_id]
    member = scene.groups.shard("g").groups["g"].roster.members[response.member_id]
    assert (member.client.id, member.client.host) == ("a test", "/127.0.0.1")
    assert member.timeouts == (SESSION_MS, SESSION_MS)


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
async def test_its_id_is_first_told_from_version_4_on(tmp_path, version):
    scene = Coordinating(tmp_path)
    first = await answer(join_group, scene, joining(), version)
    assert error(first) == ("NONE" if version < 4 else "MEMBER_ID_REQUIRED")
    assert first.member_id == "a test-1"


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
async def test_whoever_is_refused_is_told_no_generation(tmp_path, version):
    scene = Coordinating(tmp_path)
    response = await answer(join_group, scene, joining("stranger"), version)
    assert error(response) == "UNKNOWN_MEMBER_ID"
    assert (response.generation_id, response.member_id) == (-1, "stranger")
    assert response.protocol_name == ("" if version < 7 else None)


@pytest.mark.parametrize("version", [0, 4, 9])
async def test_a_group_of_members_needs_a_name(tmp_path, version):
    scene = Coordinating(tmp_path)
    response = await answer(join_group, scene, joining(group_id=""), version)
    assert error(response) == "INVALID_GROUP_ID"


async def test_whoever_waits_holds_up_nobody(tmp_path):
    scene = Coordinating(tmp_path)
    first = await joined(scene, 3)
    waiting = join_group.handle(scene.groups, called(joining(), version=3))
    assert waiting.rest is not None
    again = await answer(join_group, scene, joining(first.member_id), 3)
    assert (await waiting).generation_id == again.generation_id == 2


async def test_a_static_leader_that_returns_skips_the_assignment_from_version_9_on(tmp_path):
    scene = Coordinating(tmp_path)
    first = await joined(scene, 9, group_instance_id="one")
    await synced(scene, first, 5, group_instance_id="one")
    back = await answer(join_group, scene, joining(group_instance_id="one"), 9)
    assert back.skip_assignment
    older = await answer(join_group, scene, joining(group_instance_id="one"), 8)
    assert (older.leader, older.members) == (back.member_id, [])


async def synced(scene, member, version, **fields):
    return await answer(sync_group, scene, syncing(member, version, **fields), version)


def syncing(member, version, **fields):
    part = SyncGroupRequest.Assignment(member_id=member.member_id, assignment=b"all")
    named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    return SyncGroupRequest(
        group_id="g",
        generation_id=member.generation_id,
        member_id=member.member_id,
        assignments=[part],
        **{**named, **fields},
    )


@pytest.mark.parametrize("version", versions_of(SyncGroupRequest))
async def test_a_leader_gets_its_own_part(tmp_path, version):
    scene = Coordinating(tmp_path)
    response = await synced(scene, await joined(scene, 9), version)
    assert (error(response), response.assignment) == ("NONE", b"all")
    assert response.protocol_name == ("range" if version >= 5 else None)


async def test_from_version_5_on_the_protocol_must_be_named(tmp_path):
    scene = Coordinating(tmp_path)
    member = await joined(scene, 9)
    response = await synced(scene, member, 5, protocol_name=None)
    assert error(response) == "INCONSISTENT_GROUP_PROTOCOL"


@pytest.mark.parametrize("version", versions_of(HeartbeatRequest))
async def test_a_heartbeat_is_answered_by_the_group(tmp_path, version):
    scene = Coordinating(tmp_path)
    member = await joined(scene, 9)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member.member_id)
    assert error(await answer(heartbeat, scene, request, version)) == "NONE"
    request.generation_id = 2
    assert error(await answer(heartbeat, scene, request, version)) == "ILLEGAL_GENERATION"
    request.group_id = "other"
    assert error(await answer(heartbeat, scene, request, version)) == "UNKNOWN_MEMBER_ID"


def test_while_groups_are_loaded_heartbeats_are_believed_and_syncs_start_anew():
    loading = CoordinatorLoadInProgress()
    assert heartbeat.refused(None, loading).error_code == 0
    assert error(sync_group.refused(None, loading)) == "REBALANCE_IN_PROGRESS"
    assert error(heartbeat.refused(None, NotCoordinator())) == "NOT_COORDINATOR"
    assert error(sync_group.refused(None, NotCoordinator())) == "NOT_COORDINATOR"


@pytest.mark.parametrize("version", versions_of(LeaveGroupRequest))
async def test_members_leave(tmp_path, version):
    scene = Coordinating(tmp_path)
    member = await joined(scene, 9)
    request = leaving(version, member.member_id)
    response = await answer(leave_group, scene, request, version)
    assert error(response) == "NONE"
    assert scene.groups.shard("g").groups["g"].state_name == "Empty"
    again = await answer(leave_group, scene, request, version)
    line = again.members[0] if version >= 3 else again
    assert error(line) == "UNKNOWN_MEMBER_ID"


def leaving(version, *ids):
    if version < 3:
        return LeaveGroupRequest(group_id="g", member_id=ids[0])
    members = [LeaveGroupRequest.Member(member_id=each) for each in ids]
    return LeaveGroupRequest(group_id="g", members=members)


async def test_each_of_many_leaves_or_is_refused_alone(tmp_path):
    scene = Coordinating(tmp_path)
    member = await joined(scene, 9)
    response = await answer(leave_group, scene, leaving(5, "stranger", member.member_id), 5)
    assert [error(each) for each in response.members] == ["UNKNOWN_MEMBER_ID", "NONE"]
    assert [each.member_id for each in response.members] == ["stranger", member.member_id]
