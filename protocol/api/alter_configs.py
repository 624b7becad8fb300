"""AlterConfigs (key 33): replace the whole configuration of a topic or broker.

    v0  introduced by KIP-133
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version

Keys that the request does not name are reset to their defaults. IncrementalAlterConfigs replaces
this API for that reason (KIP-339).  Resource types: as in ``describe_configs.py``.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class AlterConfigsRequest(Message, key=33, versions="0-2", flexible="2+"):
    class Resource(Struct):
        class Config(Struct):
            name: str = string()
            value: str | None = string(nullable="0+")

        resource_type: int = int8()
        resource_name: str = string()
        configs: list[Config] = array(Config)

    resources: list[Resource] = array(Resource)
    validate_only: bool = boolean()


class AlterConfigsResponse(Message, key=33, versions="0-2", flexible="2+"):
    class Resource(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        resource_type: int = int8()
        resource_name: str = string()

    throttle_time_ms: int = int32()
    responses: list[Resource] = array(Resource)
