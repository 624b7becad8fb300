"""LeaveGroup (key 13): members leave their group immediately, without a session timeout.

    v1  the response has a throttle time
    v2  the response is sent before throttling (KIP-219)
    v3  several members at once, static ones by group instance id (KIP-345)
    v4  first flexible version
    v5  the reason for leaving (KIP-800)

An operator removes a static member by its group instance id and an empty ``member_id``.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class LeaveGroupRequest(Message, key=13, versions="0-5", flexible="4+"):
    class Member(Struct):
        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+", default=None)
        reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    group_id: str = string()
    member_id: str = string("0-2", default="")
    members: list[Member] = array(Member, "3+", default=[])


class LeaveGroupResponse(Message, key=13, versions="0-5", flexible="4+"):
    class Member(Struct):
        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+")
        error_code: int = int16("3+")

    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16()
    members: list[Member] = array(Member, "3+", default=[])
