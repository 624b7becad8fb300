"""ApiVersions: list the supported APIs with their versions, and the features.

From version 3 on clients send the name and version of their software (KIP-511), in letters, digits,
dots and hyphens.  Clients before version 4 cannot read features whose minimum version is 0, so the
response omits these (KAFKA-17492).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from odradek.broker.metadata.finalized_feature_cache import Features
from odradek.broker.request import Request
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidRequest
from odradek.protocol.field import Versions

FIRST_VERSION_WITH_CLIENT_SOFTWARE = 3
FIRST_VERSION_WITH_ZERO_MIN_FEATURE = 4

_SOFTWARE_PATTERN = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    versions: Mapping[ApiKey, Versions], features: Features, request: Request[ApiVersionsRequest]
) -> ApiVersionsResponse:
    if request.version >= FIRST_VERSION_WITH_CLIENT_SOFTWARE:
        _record_client_software(request)
    lowest_min_version = 0 if request.version >= FIRST_VERSION_WITH_ZERO_MIN_FEATURE else 1
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE.code,
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=int(key), min_version=supported.low, max_version=supported.high
            )
            for key, supported in sorted(versions.items())
        ],
        supported_features=[
            ApiVersionsResponse.SupportedFeature(
                name=name, min_version=supported.low, max_version=supported.high
            )
            for name, supported in features.supported.items()
            if supported.low >= lowest_min_version
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeature(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in features.finalized.items()
            if level
        ],
    )


def _record_client_software(request: Request[ApiVersionsRequest]) -> None:
    name, version = request.body.client_software_name, request.body.client_software_version
    if not (_SOFTWARE_PATTERN.fullmatch(name) and _SOFTWARE_PATTERN.fullmatch(version)):
        raise InvalidRequest(
            "The client software name and version must consist of letters, digits, dots and "
            "hyphens, and must begin and end with a letter or a digit."
        )
    request.context.client_software_name = name
    request.context.client_software_version = version
