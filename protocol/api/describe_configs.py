"""DescribeConfigs (key 32): read configuration."""

from odradek.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsRequest(Message, key=32, versions="0-4", flexible="4+"):
    class Resource(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        configuration_keys: list[str] | None = array(string, nullable="0+")

    resources: list[Resource] = array(Resource)
    include_synonyms: bool = boolean("1+", default=False)
    include_documentation: bool = boolean("3+", default=False)


class DescribeConfigsResponse(Message, key=32, versions="0-4", flexible="4+"):
    class Resource(Struct):
        class Config(Struct):
            class Synonym(Struct):
                name: str = string("1+")
                value: str | None = string("1+", nullable="0+")
                source: int = int8("1+")

            name: str = string()
            value: str | None = string(nullable="0+")
            read_only: bool = boolean()
            is_default: bool = boolean("0", default=False)
            config_source: int = int8("1+", default=-1, ignorable=True)
            is_sensitive: bool = boolean()
            synonyms: list[Synonym] = array(Synonym, "1+", default=[], ignorable=True)
            config_type: int = int8("3+", default=0, ignorable=True)
            documentation: str | None = string("3+", nullable="0+", default="", ignorable=True)

        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        resource_type: int = int8()
        resource_name: str = string()
        configs: list[Config] = array(Config)

    throttle_time_ms: int = int32()
    results: list[Resource] = array(Resource)
