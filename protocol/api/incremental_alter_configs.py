"""IncrementalAlterConfigs (key 44): change single keys of a configuration and keep the others.

    v0  introduced by KIP-339
    v1  first flexible version

``config_operation``: 0 set, 1 delete, 2 append to a list, 3 subtract from a list.  Resource types:
as in ``describe_configs.py``.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class IncrementalAlterConfigsRequest(Message, key=44, versions="0-1", flexible="1+"):
    class Resource(Struct):
        class Config(Struct):
            name: str = string()
            config_operation: int = int8()
            value: str | None = string(nullable="0+")

        resource_type: int = int8()
        resource_name: str = string()
        configs: list[Config] = array(Config)

    resources: list[Resource] = array(Resource)
    validate_only: bool = boolean()


class IncrementalAlterConfigsResponse(Message, key=44, versions="0-1", flexible="1+"):
    class Resource(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        resource_type: int = int8()
        resource_name: str = string()

    throttle_time_ms: int = int32()
    responses: list[Resource] = array(Resource)
