"""Members of classic groups on raw sockets: each has a connection and frames encoded in advance.

All groups are formed at the same time, phase by phase: all members send, then all receive.  The
first rebalance waits for ``group.initial.rebalance.delay.ms``, so each group has one generation.

The versions are the last ones that are not flexible and in which a new member needs no second
JoinGroup.  Kafka 3, Kafka 4 and Odradek support them.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from raw_driver import CLIENT_ID, RequestFailed, connect, receive_response, send_and_receive

from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.heartbeat import HeartbeatRequest
from odradek.protocol.api.join_group import JoinGroupRequest
from odradek.protocol.api.offset_commit import OffsetCommitRequest
from odradek.protocol.api.offset_fetch import OffsetFetchRequest
from odradek.protocol.api.sync_group import SyncGroupRequest
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.header import request_frame
from odradek.protocol.schema import Message

JOIN_VERSION = SYNC_VERSION = HEARTBEAT_VERSION = 3
COMMIT_VERSION, OFFSET_FETCH_VERSION, FIND_VERSION = 7, 5, 2
#: The position of the error code in a response to JoinGroup, SyncGroup and Heartbeat: after size,
#: correlation id and throttle time.
MEMBER_ERROR_CODE_POSITION = 12
#: The longest session timeout that Kafka allows by default.
SESSION_TIMEOUT_MAX_MS = 30 * 60 * 1000
#: A version, no topics and no user data; only clients interpret the contents.
SUBSCRIPTION = ASSIGNMENT = b"\0\0\0\0\0\0\xff\xff\xff\xff"
COORDINATOR_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.02
_RETRIABLE_ERROR_CODES = frozenset(
    each.code
    for each in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


@dataclass(frozen=True, slots=True)
class Member:
    connection: socket.socket
    id: str


@dataclass(frozen=True, slots=True)
class StableGroup:
    """A group in state Stable; the first member is the leader."""

    id: str
    generation: int
    members: list[Member]


def encode_request(key: ApiKey, version: int, request: Message) -> bytes:
    return b"".join(request_frame(key, version, 1, CLIENT_ID, request))


def join_frame(
    group_id: str, member_id: str = "", *, session_timeout_ms: int = SESSION_TIMEOUT_MAX_MS
) -> bytes:
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=SESSION_TIMEOUT_MAX_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=SUBSCRIPTION)],
    )
    return encode_request(ApiKey.JOIN_GROUP, JOIN_VERSION, request)


def sync_frame(
    group_id: str, generation: int, member_id: str, assigned_member_ids: Sequence[str]
) -> bytes:
    """Encode SyncGroup; the leader's has an assignment for each of ``assigned_member_ids``."""
    assignment_class = SyncGroupRequest.Assignment
    request = SyncGroupRequest(
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        assignments=[
            assignment_class(member_id=each, assignment=ASSIGNMENT) for each in assigned_member_ids
        ],
    )
    return encode_request(ApiKey.SYNC_GROUP, SYNC_VERSION, request)


def sync_frames(group_id: str, generation: int, member_ids: Sequence[str]) -> list[bytes]:
    """Encode SyncGroup for all members, the leader first."""
    return [
        sync_frame(group_id, generation, each, member_ids if each == member_ids[0] else ())
        for each in member_ids
    ]


def heartbeat_frame(group_id: str, generation: int, member_id: str) -> bytes:
    request = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)
    return encode_request(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request)


def commit_frame(
    group_id: str, topic: str, partition: int, *, generation: int = -1, member_id: str = ""
) -> bytes:
    """Encode a commit for one partition; without a member id, the commit is a standalone one."""
    commit_partition = OffsetCommitRequest.Topic.Partition(
        partition_index=partition,
        committed_offset=1_000_000,
        committed_leader_epoch=0,
        committed_metadata="",
    )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequest.Topic(name=topic, partitions=[commit_partition])],
    )
    return encode_request(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, request)


def commit_error_code_position(topic: str) -> int:
    """The position after throttle time, one topic, its name, one partition and its index."""
    return MEMBER_ERROR_CODE_POSITION + 4 + 2 + len(topic) + 4 + 4


def group_error_code(address: str, group_id: str) -> int:
    """Return the error code of an OffsetFetch for the group."""
    request = OffsetFetchRequest(group_id=group_id, topics=[])
    code: int = send_and_receive(
        address, ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, request
    ).error_code
    return code


def wait_for_coordinator(address: str, group_ids: Sequence[str]) -> None:
    """Wait until the groups have a coordinator.

    The first FindCoordinator request makes the broker create the offsets topic.
    """
    deadline = time.monotonic() + COORDINATOR_TIMEOUT_S
    request = FindCoordinatorRequest(key=group_ids[0], key_type=0)
    pending = list(group_ids)
    while pending:
        if time.monotonic() > deadline:
            raise RequestFailed(f"no coordinator for group {pending[0]}")
        if (
            send_and_receive(address, ApiKey.FIND_COORDINATOR, FIND_VERSION, request).error_code
            == 0
        ):
            pending = [
                each
                for each in pending
                if group_error_code(address, each) in _RETRIABLE_ERROR_CODES
            ]
        if pending:
            time.sleep(POLL_INTERVAL_S)


def form_groups(
    address: str,
    group_ids: Sequence[str],
    exit_stack: ExitStack,
    *,
    size: int = 1,
    session_timeout_ms: int = SESSION_TIMEOUT_MAX_MS,
) -> list[StableGroup]:
    """Form groups of ``size`` members; the exit stack closes their connections."""
    wait_for_coordinator(address, group_ids)
    connections = {
        each: [exit_stack.enter_context(connect(address)) for _ in range(size)]
        for each in group_ids
    }
    for group_id, sockets in connections.items():
        for connection in sockets:
            connection.sendall(join_frame(group_id, session_timeout_ms=session_timeout_ms))
    groups = [
        _receive_join_responses(group_id, sockets) for group_id, sockets in connections.items()
    ]
    for group in groups:
        ids = [member.id for member in group.members]
        for member, frame in zip(
            group.members, sync_frames(group.id, group.generation, ids), strict=True
        ):
            member.connection.sendall(frame)
    for group in groups:
        for member in group.members:
            _receive_response(member.connection, ApiKey.SYNC_GROUP, SYNC_VERSION)
    return groups


def _receive_join_responses(group_id: str, connections: Sequence[socket.socket]) -> StableGroup:
    responses = [
        (each, _receive_response(each, ApiKey.JOIN_GROUP, JOIN_VERSION)) for each in connections
    ]
    responses.sort(key=lambda pair: pair[1].member_id != pair[1].leader)
    leader_response = responses[0][1]
    if len(leader_response.members) != len(connections):
        raise RequestFailed(
            f"{len(leader_response.members)} of {len(connections)} members joined {group_id}"
        )
    members = [Member(connection, response.member_id) for connection, response in responses]
    return StableGroup(group_id, leader_response.generation_id, members)


def _receive_response(connection: socket.socket, key: ApiKey, version: int) -> Any:
    response = receive_response(connection, key, version)
    if response.error_code:
        raise RequestFailed(f"{key.name}: error code {response.error_code}")
    return response
