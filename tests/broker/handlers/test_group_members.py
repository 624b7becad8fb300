"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, in every version."""

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


def join_request(member_id="", *, group_id="g", **fields):
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[Protocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")],
        **fields,
    )


async def send(module, scene, body, version):
    request = called(body, version=version)
    try:
        response = await in_the_end(module.handle(scene.groups, request))
    except KafkaError as kafka_error:
        response = module.error_response(request, kafka_error)
    return as_sent(response, version=version)


async def join(scene, version, **fields):
    """Join as the only member of the group and complete the rebalance."""
    first = await send(join_group, scene, join_request(**fields), version)
    if first.error_code == ErrorCode.MEMBER_ID_REQUIRED.code:
        return await send(join_group, scene, join_request(first.member_id, **fields), version)
    return first


def error(response):
    return ErrorCode.for_code(response.error_code).name


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
async def test_member_joins_and_gets_the_member_list(tmp_path, version):
    scene = Coordinating(tmp_path)
    response = await join(scene, version)
    assert error(response) == "NONE"
    assert (response.generation_id, response.protocol_name) == (1, "range")
    assert response.leader == response.member_id
    assert [each.member_id for each in response.members] == [response.member_id]
    member = scene.groups.shard("g").groups["g"].metadata.members[response.member_id]
    assert (member.client.id, member.client.host) == ("a test", "/127.0.0.1")
    assert member.timeouts == (SESSION_MS, SESSION_MS)


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
async def test_member_id_is_required_from_version_4_on(tmp_path, version):
    scene = Coordinating(tmp_path)
    first = await send(join_group, scene, join_request(), version)
    assert error(first) == ("NONE" if version < 4 else "MEMBER_ID_REQUIRED")
    assert first.member_id == "a test-1"


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
async def test_rejected_join_has_no_generation(tmp_path, version):
    scene = Coordinating(tmp_path)
    response = await send(join_group, scene, join_request("stranger"), version)
    assert error(response) == "UNKNOWN_MEMBER_ID"
    assert (response.generation_id, response.member_id) == (-1, "stranger")
    assert response.protocol_name == ("" if version < 7 else None)


@pytest.mark.parametrize("version", [0, 4, 9])
async def test_join_with_an_empty_group_id_is_rejected(tmp_path, version):
    scene = Coordinating(tmp_path)
    response = await send(join_group, scene, join_request(group_id=""), version)
    assert error(response) == "INVALID_GROUP_ID"


async def test_waiting_join_does_not_block_other_members(tmp_path):
    scene = Coordinating(tmp_path)
    first = await join(scene, 3)
    waiting = join_group.handle(scene.groups, called(join_request(), version=3))
    assert waiting.complete is not None
    again = await send(join_group, scene, join_request(first.member_id), 3)
    assert (await waiting).generation_id == again.generation_id == 2


async def test_returning_static_leader_skips_the_assignment_from_version_9_on(tmp_path):
    scene = Coordinating(tmp_path)
    first = await join(scene, 9, group_instance_id="one")
    await sync(scene, first, 5, group_instance_id="one")
    back = await send(join_group, scene, join_request(group_instance_id="one"), 9)
    assert back.skip_assignment
    older = await send(join_group, scene, join_request(group_instance_id="one"), 8)
    assert (older.leader, older.members) == (back.member_id, [])


async def sync(scene, member, version, **fields):
    return await send(sync_group, scene, sync_request(member, version, **fields), version)


def sync_request(member, version, **fields):
    assignment = SyncGroupRequest.Assignment(member_id=member.member_id, assignment=b"all")
    protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    return SyncGroupRequest(
        group_id="g",
        generation_id=member.generation_id,
        member_id=member.member_id,
        assignments=[assignment],
        **{**protocol, **fields},
    )


@pytest.mark.parametrize("version", versions_of(SyncGroupRequest))
async def test_leader_gets_its_own_assignment(tmp_path, version):
    scene = Coordinating(tmp_path)
    response = await sync(scene, await join(scene, 9), version)
    assert (error(response), response.assignment) == ("NONE", b"all")
    assert response.protocol_name == ("range" if version >= 5 else None)


async def test_sync_must_name_the_protocol_from_version_5_on(tmp_path):
    scene = Coordinating(tmp_path)
    member = await join(scene, 9)
    response = await sync(scene, member, 5, protocol_name=None)
    assert error(response) == "INCONSISTENT_GROUP_PROTOCOL"


@pytest.mark.parametrize("version", versions_of(HeartbeatRequest))
async def test_heartbeat_checks_generation_and_member(tmp_path, version):
    scene = Coordinating(tmp_path)
    member = await join(scene, 9)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member.member_id)
    assert error(await send(heartbeat, scene, request, version)) == "NONE"
    request.generation_id = 2
    assert error(await send(heartbeat, scene, request, version)) == "ILLEGAL_GENERATION"
    request.group_id = "other"
    assert error(await send(heartbeat, scene, request, version)) == "UNKNOWN_MEMBER_ID"


def test_while_loading_heartbeats_succeed_and_syncs_return_rebalance_in_progress():
    loading = CoordinatorLoadInProgress()
    assert heartbeat.error_response(None, loading).error_code == 0
    assert error(sync_group.error_response(None, loading)) == "REBALANCE_IN_PROGRESS"
    assert error(heartbeat.error_response(None, NotCoordinator())) == "NOT_COORDINATOR"
    assert error(sync_group.error_response(None, NotCoordinator())) == "NOT_COORDINATOR"


@pytest.mark.parametrize("version", versions_of(LeaveGroupRequest))
async def test_member_leaves_the_group(tmp_path, version):
    scene = Coordinating(tmp_path)
    member = await join(scene, 9)
    request = leave_request(version, member.member_id)
    response = await send(leave_group, scene, request, version)
    assert error(response) == "NONE"
    assert scene.groups.shard("g").groups["g"].state_name == "Empty"
    again = await send(leave_group, scene, request, version)
    result = again.members[0] if version >= 3 else again
    assert error(result) == "UNKNOWN_MEMBER_ID"


def leave_request(version, *ids):
    if version < 3:
        return LeaveGroupRequest(group_id="g", member_id=ids[0])
    members = [LeaveGroupRequest.Member(member_id=each) for each in ids]
    return LeaveGroupRequest(group_id="g", members=members)


async def test_each_member_leaves_or_is_rejected_independently(tmp_path):
    scene = Coordinating(tmp_path)
    member = await join(scene, 9)
    response = await send(leave_group, scene, leave_request(5, "stranger", member.member_id), 5)
    assert [error(each) for each in response.members] == ["UNKNOWN_MEMBER_ID", "NONE"]
    assert [each.member_id for each in response.members] == ["stranger", member.member_id]
