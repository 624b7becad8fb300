"""ApiVersions (key 18): the APIs, and their versions, that this broker supports.

    v0  introduced by KIP-35
    v1  the response has a throttle time
    v2  the response is sent before throttling (KIP-219)
    v3  first flexible version; the client names its software (KIP-511); the broker lists its
        features (KIP-584) and readiness to migrate (KIP-866) in tagged fields
    v4  features whose lowest version is 0 are listed too (KIP-1022)

The client sends the request before it knows which versions the broker supports.  Therefore the
response header is v0 in every version, and the response to an unknown version has a v0 body with
error 35, UNSUPPORTED_VERSION, and the supported range.

``finalized_features_epoch`` is -1 when the finalized features are unknown.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Message, key=18, versions="0-4", flexible="3+"):
    client_software_name: str = string("3+", default="", ignorable=True)
    client_software_version: str = string("3+", default="", ignorable=True)


class ApiVersionsResponse(Message, key=18, versions="0-4", flexible="3+"):
    class ApiVersion(Struct):
        api_key: int = int16()
        min_version: int = int16()
        max_version: int = int16()

    class SupportedFeature(Struct):
        name: str = string("3+")
        min_version: int = int16("3+")
        max_version: int = int16("3+")

    class FinalizedFeature(Struct):
        name: str = string("3+")
        max_version_level: int = int16("3+")
        min_version_level: int = int16("3+")

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeature] = array(
        SupportedFeature, "3+", tag=0, default=[], ignorable=True
    )
    finalized_features_epoch: int = int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeature] = array(
        FinalizedFeature, "3+", tag=2, default=[], ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, default=False, ignorable=True)
