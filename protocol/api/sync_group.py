"""SyncGroup (key 14): the leader sends the assignment, and every member receives its part.

    v1  the response has a throttle time
    v2  the response is sent before throttling (KIP-219)
    v3  the group instance id of static members (KIP-345)
    v4  first flexible version
    v5  request and response have the protocol; a mismatch is rejected (KIP-559)

Only the leader sends ``assignments``.  Those of protocol type ``consumer`` are described
in ``internal/consumer_protocol.py``.
"""

from odradek.protocol.schema import Message, Struct, array, byte_string, int16, int32, string


class SyncGroupRequest(Message, key=14, versions="0-5", flexible="4+"):
    class Assignment(Struct):
        member_id: str = string()
        assignment: bytes = byte_string()

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[Assignment] = array(Assignment)


class SyncGroupResponse(Message, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = byte_string()
