"""UpdateFeatures: change the finalized feature levels of the cluster (KIP-584).

Up to version 1 each feature is updated or rejected individually; from version 2 on either all are
updated or none.  The response is sent when this broker, the active controller, reports the new
levels to its clients.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Protocol

from odradek.broker.handlers.error_messages import error_message
from odradek.broker.request import Request
from odradek.controller.feature_updates import FeatureUpdate, FeatureUpdateResults, UpgradeType
from odradek.protocol.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of

_FIRST_VERSION_WITH_UPGRADE_TYPE = 1
_FIRST_ATOMIC_VERSION = 2


class Controller(Protocol):
    """The part of the controller that updates features."""

    async def update_features(
        self, updates: Collection[FeatureUpdate], /, *, is_atomic: bool, should_write: bool
    ) -> FeatureUpdateResults: ...


class FinalizedFeatures(Protocol):
    """The finalized features that this broker reports to clients."""

    async def refresh(self) -> None: ...


def handle(
    controller: Controller,
    finalized_features: FinalizedFeatures,
    request: Request[UpdateFeaturesRequest],
) -> Awaitable[UpdateFeaturesResponse]:
    return _update_features(controller, finalized_features, request)


async def _update_features(
    controller: Controller,
    finalized_features: FinalizedFeatures,
    request: Request[UpdateFeaturesRequest],
) -> UpdateFeaturesResponse:
    body, is_atomic = request.body, request.version >= _FIRST_ATOMIC_VERSION
    updates = [_feature_update(each, request.version) for each in body.feature_updates]
    results = await controller.update_features(
        updates, is_atomic=is_atomic, should_write=not body.validate_only
    )
    await finalized_features.refresh()
    error = next(filter(None, results.values()), None) if is_atomic else None
    return UpdateFeaturesResponse(
        throttle_time_ms=0,
        error_code=code_of(error),
        error_message=None if error is None else error.message,
        results=[] if is_atomic else [*map(_feature_result, results, results.values())],
    )


def _feature_update(
    update_request: UpdateFeaturesRequest.FeatureUpdate, version: int
) -> FeatureUpdate:
    if version >= _FIRST_VERSION_WITH_UPGRADE_TYPE:
        upgrade_type = UpgradeType.of(update_request.upgrade_type)
    else:
        upgrade_type = (
            UpgradeType.SAFE_DOWNGRADE if update_request.allow_downgrade else UpgradeType.UPGRADE
        )
    return FeatureUpdate(update_request.feature, update_request.max_version_level, upgrade_type)


def _feature_result(feature: str, error: KafkaError | None) -> UpdateFeaturesResponse.Feature:
    return UpdateFeaturesResponse.Feature(
        feature=feature,
        error_code=ErrorCode.NONE.code if error is None else code_of(error),
        error_message=None if error is None else error_message(error),
    )
