"""DescribeGroups (key 15): state and members of classic groups.

    v1  the response has a throttle time
    v2  the response is sent before throttling (KIP-219)
    v3  authorized operations on request (KIP-430)
    v4  the group instance id of static members (KIP-345)
    v5  first flexible version
    v6  GROUP_ID_NOT_FOUND, with a message, where v5 returned the state Dead (KIP-1043)

Group states: PreparingRebalance, CompletingRebalance, Stable, Empty, Dead.  ``protocol_data`` is
the name of the selected protocol.  ``protocol_data``, ``member_metadata`` and ``member_assignment``
are empty unless the group is Stable.  ``authorized_operations``: as in ``describe_acls.py``.
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


class DescribeGroupsRequest(Message, key=15, versions="0-6", flexible="5+"):
    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+", default=False)


class DescribeGroupsResponse(Message, key=15, versions="0-6", flexible="5+"):
    class Group(Struct):
        class Member(Struct):
            member_id: str = string()
            group_instance_id: str | None = string(
                "4+", nullable="4+", default=None, ignorable=True
            )
            client_id: str = string()
            client_host: str = string()
            member_metadata: bytes = byte_string()
            member_assignment: bytes = byte_string()

        error_code: int = int16()
        error_message: str | None = string("6+", nullable="6+", default=None)
        group_id: str = string()
        group_state: str = string()
        protocol_type: str = string()
        protocol_data: str = string()
        members: list[Member] = array(Member)
        authorized_operations: int = int32("3+", default=-2147483648)

    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    groups: list[Group] = array(Group)
