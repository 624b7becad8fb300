"""DeleteAcls (key 31): delete all ACLs that match the given filters.

    v0  introduced by KIP-140
    v1  filters by pattern type (KIP-290); the response is sent before throttling (KIP-219)
    v2  first flexible version
    v3  users are resources (KIP-373)

Numbers of types, operations and permissions: in ``describe_acls.py``.  A null filter matches
everything.  Results are in the order of the filters.
"""

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, string


class DeleteAclsRequest(Message, key=31, versions="0-3", flexible="2+"):
    class Filter(Struct):
        resource_type_filter: int = int8()
        resource_name_filter: str | None = string(nullable="0+")
        pattern_type_filter: int = int8("1+", default=3)
        principal_filter: str | None = string(nullable="0+")
        host_filter: str | None = string(nullable="0+")
        operation: int = int8()
        permission_type: int = int8()

    filters: list[Filter] = array(Filter)


class DeleteAclsResponse(Message, key=31, versions="0-3", flexible="2+"):
    class FilterResult(Struct):
        class MatchingAcl(Struct):
            error_code: int = int16()
            error_message: str | None = string(nullable="0+")
            resource_type: int = int8()
            resource_name: str = string()
            pattern_type: int = int8("1+", default=3)
            principal: str = string()
            host: str = string()
            operation: int = int8()
            permission_type: int = int8()

        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        matching_acls: list[MatchingAcl] = array(MatchingAcl)

    throttle_time_ms: int = int32()
    filter_results: list[FilterResult] = array(FilterResult)
