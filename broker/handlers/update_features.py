"""UpdateFeatures: the cluster agrees on other levels of features (KIP-584).

Up to version 1 each feature is changed or refused alone; from version 2 on all are, or none.  The
answer is given when this broker, which is the controller's, tells its clients of the new levels.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.handlers.refusals import words
from odradek.controller.feature_updates import FeatureUpdate, Outcomes, UpgradeType
from odradek.protocol.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of

_FIRST_VERSION_OF_TYPES = 1
_FIRST_VERSION_OF_ALL = 2


class Controller(Protocol):
    """The part of the controller that keeps features."""

    async def update_features(
        self, updates: Collection[FeatureUpdate], /, *, is_whole: bool, is_written: bool
    ) -> Outcomes: ...


class Agreed(Protocol):
    """What clients are told of features."""

    async def look(self) -> None: ...


def handle(
    controller: Controller, agreed: Agreed, call: Call[UpdateFeaturesRequest]
) -> Awaitable[UpdateFeaturesResponse]:
    return _updated(controller, agreed, call)


async def _updated(
    controller: Controller, agreed: Agreed, call: Call[UpdateFeaturesRequest]
) -> UpdateFeaturesResponse:
    request, is_whole = call.request, call.version >= _FIRST_VERSION_OF_ALL
    updates = [_update(each, call.version) for each in request.feature_updates]
    outcomes = await controller.update_features(
        updates, is_whole=is_whole, is_written=not request.validate_only
    )
    await agreed.look()
    failure = next(filter(None, outcomes.values()), None) if is_whole else None
    return UpdateFeaturesResponse(
        throttle_time_ms=0,
        error_code=code_of(failure),
        error_message=None if failure is None else failure.message,
        results=[] if is_whole else [*map(_line, outcomes, outcomes.values())],
    )


def _update(asked: UpdateFeaturesRequest.FeatureUpdate, version: int) -> FeatureUpdate:
    if version >= _FIRST_VERSION_OF_TYPES:
        kind = UpgradeType.of(asked.upgrade_type)
    else:
        kind = UpgradeType.SAFE_DOWNGRADE if asked.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(asked.feature, asked.max_version_level, kind)


def _line(feature: str, failure: KafkaError | None) -> UpdateFeaturesResponse.Feature:
    return UpdateFeaturesResponse.Feature(
        feature=feature,
        error_code=ErrorCode.NONE.code if failure is None else code_of(failure),
        error_message=None if failure is None else words(failure),
    )
