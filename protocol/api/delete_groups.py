"""DeleteGroups (key 42): delete groups without members, and their offsets.

    v0  introduced by KIP-229
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version

The error for a group with members is NON_EMPTY_GROUP.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class DeleteGroupsRequest(Message, key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = array(string)


class DeleteGroupsResponse(Message, key=42, versions="0-2", flexible="2+"):
    class Group(Struct):
        group_id: str = string()
        error_code: int = int16()

    throttle_time_ms: int = int32()
    results: list[Group] = array(Group)
