"""DescribeAcls (key 29): list the ACLs that match a filter.

    v0  introduced by KIP-140
    v1  shows and filters by pattern type (KIP-290); the response is sent before throttling
        (KIP-219)
    v2  first flexible version
    v3  users are resources (KIP-373)

The numbers of the three ACL APIs, where 1 (any) is for filters only:

    resource type    1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token,
                     7 user
    pattern type     1 any, 2 match: all that apply to the name, 3 literal, 4 prefixed
    operation        1 any, 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe,
                     9 cluster action, 10 describe configs, 11 alter configs,
                     12 idempotent write, 13 create tokens, 14 describe tokens,
                     15 two-phase commit
    permission type  1 any, 2 deny, 3 allow

A null filter matches everything.  The fields called ``authorized_operations`` of other APIs have
bit n set for operation n; -2147483648 means that the request did not ask for them.
"""

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, string


class DescribeAclsRequest(Message, key=29, versions="0-3", flexible="2+"):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResponse(Message, key=29, versions="0-3", flexible="2+"):
    class Resource(Struct):
        class Acl(Struct):
            principal: str = string()
            host: str = string()
            operation: int = int8()
            permission_type: int = int8()

        resource_type: int = int8()
        resource_name: str = string()
        pattern_type: int = int8("1+", default=3)
        acls: list[Acl] = array(Acl)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resources: list[Resource] = array(Resource)
