"""CreateAcls (key 30): add ACLs.

    v0  introduced by KIP-140
    v1  prefixed resource patterns (KIP-290); the response is sent before throttling (KIP-219)
    v2  first flexible version
    v3  users are resources (KIP-373)

Numbers of types, operations and permissions: in ``describe_acls.py``.  Results are in the
order of the creations.
"""

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, string


class CreateAclsRequest(Message, key=30, versions="0-3", flexible="2+"):
    class Creation(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        resource_pattern_type: int = int8("1+", default=3)
        principal: str = string()
        host: str = string()
        operation: int = int8()
        permission_type: int = int8()

    creations: list[Creation] = array(Creation)


class CreateAclsResponse(Message, key=30, versions="0-3", flexible="2+"):
    class Result(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")

    throttle_time_ms: int = int32()
    results: list[Result] = array(Result)
