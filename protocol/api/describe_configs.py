"""DescribeConfigs (key 32): read the configuration of topics, brokers and other resources.

    v0  introduced by KIP-133
    v1  the source of a value instead of ``is_default``; synonyms on request (KIP-226)
    v2  the response is sent before throttling (KIP-219)
    v3  types, and documentation on request (KIP-569)
    v4  first flexible version

The numbers of the configuration APIs:

    resource type  2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    config source  1 topic, 2 dynamic broker, 3 dynamic default of all brokers, 4 static broker,
                   5 built-in default, 6 broker logger, 7 client metrics, 8 group
    config type    0 unknown, 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list,
                   8 class, 9 password

Null ``configuration_keys`` select all.  A broker's name is its id, or empty for the default of
all brokers.  The value of a sensitive key is null.
"""

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
