"""ApiVersions: which APIs, and which versions of them, are served here.

From version 3 on clients name their software (KIP-511), in letters, digits, dots and hyphens.
Features whose lowest version is 0 are kept from clients before version 4, which cannot read them
(KAFKA-17492).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from odradek.broker.call import Call
from odradek.broker.metadata.agreed_features import Features
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidRequest
from odradek.protocol.field import Versions

NAMES_SOFTWARE = 3
READS_VERSION_0 = 4

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    versions: Mapping[ApiKey, Versions], features: Features, call: Call[ApiVersionsRequest]
) -> ApiVersionsResponse:
    if call.version >= NAMES_SOFTWARE:
        _note_software(call)
    lowest = 0 if call.version >= READS_VERSION_0 else 1
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE.code,
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=int(key), min_version=served.low, max_version=served.high
            )
            for key, served in sorted(versions.items())
        ],
        supported_features=[
            ApiVersionsResponse.SupportedFeature(
                name=name, min_version=each.low, max_version=each.high
            )
            for name, each in features.supported.items()
            if each.low >= lowest
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


def _note_software(call: Call[ApiVersionsRequest]) -> None:
    name, version = call.request.client_software_name, call.request.client_software_version
    if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
        raise InvalidRequest("That is no name or version of a client's software.")
    call.peer.client_software_name = name
    call.peer.client_software_version = version
