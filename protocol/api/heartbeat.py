"""Heartbeat (key 12): keep a group member alive.

    v1  the response has a throttle time
    v2  the response is sent before throttling (KIP-219)
    v3  the group instance id of static members (KIP-345)
    v4  first flexible version

REBALANCE_IN_PROGRESS tells the member to join again.
"""

from odradek.protocol.schema import Message, int16, int32, string


class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Message, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16()
