"""ListGroups (key 16): groups on this broker."""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = array(string, "4+", default=[])
    types_filter: list[str] = array(string, "5+", default=[])


class ListGroupsResponse(Message, key=16, versions="0-5", flexible="3+"):
    class Group(Struct):
        group_id: str = string()
        protocol_type: str = string()
        group_state: str = string("4+", default="", ignorable=True)
        group_type: str = string("5+", default="", ignorable=True)

    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16()
    groups: list[Group] = array(Group)
