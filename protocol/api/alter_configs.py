"""AlterConfigs (key 33): replace configuration (old form)."""

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
