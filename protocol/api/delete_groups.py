"""DeleteGroups (key 42): delete groups that have no members, with their offsets.

    v0  introduced by KIP-229
    v1  the answer is sent before throttling (KIP-219)
    v2  first flexible version

A group that has members answers NON_EMPTY_GROUP.
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
