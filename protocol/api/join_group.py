"""JoinGroup (key 11): a member joins a classic group, which starts a rebalance.

    v1  a rebalance timeout; before, the session timeout was used (KIP-62)
    v2  the response has a throttle time
    v3  the response is sent before throttling (KIP-219)
    v4  a new member first receives its id, with MEMBER_ID_REQUIRED (KIP-394)
    v5  the group instance id of static members (KIP-345)
    v6  first flexible version
    v7  the response has the protocol type; no protocol is null, not empty (KIP-559)
    v8  the reason for joining (KIP-800)
    v9  a returning static leader may have to skip the assignment (KIP-814)

A new member sends an empty ``member_id``.  Only the leader's response lists the ``members``.  The
metadata of protocol type ``consumer`` is described in ``internal/consumer_protocol.py``.
"""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    byte_string,
    int16,
    int32,
    string,
)


class JoinGroupRequest(Message, key=11, versions="0-9", flexible="6+"):
    class Protocol(Struct):
        name: str = string()
        metadata: bytes = byte_string()

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[Protocol] = array(Protocol)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponse(Message, key=11, versions="0-9", flexible="6+"):
    class Member(Struct):
        member_id: str = string()
        group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
        metadata: bytes = byte_string()

    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+", default=False)
    member_id: str = string()
    members: list[Member] = array(Member)
