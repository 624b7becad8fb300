"""UpdateFeatures (key 57): finalize the levels of features for the whole cluster.

    v0  introduced by KIP-584
    v1  downgrade types instead of a flag; validate-only requests (KIP-778)
    v2  one result for all features together (KIP-1022)

``upgrade_type``: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade (metadata may be lost).  A
level below 1 removes the feature.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class UpdateFeaturesRequest(Message, key=57, versions="0-2", flexible="0+"):
    class FeatureUpdate(Struct):
        feature: str = string()
        max_version_level: int = int16()
        allow_downgrade: bool = boolean("0", default=False)
        upgrade_type: int = int8("1+", default=1)

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdate] = array(FeatureUpdate)
    validate_only: bool = boolean("1+", default=False)


class UpdateFeaturesResponse(Message, key=57, versions="0-2", flexible="0+"):
    class Feature(Struct):
        feature: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[Feature] = array(Feature, "0-1", default=[], ignorable=True)
