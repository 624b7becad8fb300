"""ListGroups (key 16): the groups that this broker coordinates.

    v1  the response has a throttle time
    v2  the response is sent before throttling (KIP-219)
    v3  first flexible version
    v4  shows and filters by state (KIP-518)
    v5  shows and filters by type (KIP-848)

An empty filter selects all.  States: as in ``describe_groups.py`` and
``consumer_group_describe.py``.  Types: classic, consumer, share, case-insensitive.
"""

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
