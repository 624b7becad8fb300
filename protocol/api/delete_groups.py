"""DeleteGroups (key 42): delete empty groups."""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class DeleteGroupsRequest(Message, key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = array(string)


class DeleteGroupsResponse(Message, key=42, versions="0-2", flexible="2+"):
    class Group(Struct):
        group_id: str = string()
        error_code: int = int16()

    throttle_time_ms: int = int32()
    results: list[Group] = array(Group)
