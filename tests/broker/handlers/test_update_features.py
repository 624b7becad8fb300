"""Tests of broker/handlers/update_features.py."""

import pytest

from odradek.broker.handlers import update_features
from odradek.controller.feature_updates import FeatureUpdate, UpgradeType
from odradek.protocol.api.update_features import UpdateFeaturesRequest as Request
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidRequest, KafkaError, NotController
from tests.support.calls import answer, versions_of
from tests.support.fake_controller import FakeController

VERSIONS = versions_of(Request)
REJECTED = KafkaError("no", error_code=ErrorCode.INVALID_UPDATE_VERSION)


class FakeFeatureCache:
    """``refreshes`` counts the calls of ``refresh``."""

    refreshes = 0

    async def refresh(self):
        self.refreshes += 1


def build_request(version, *, level=2, kind=UpgradeType.UPGRADE, **fields):
    update = Request.FeatureUpdate(feature="f", max_version_level=level)
    if version == 0:
        update.allow_downgrade = kind is not UpgradeType.UPGRADE
    else:
        update.upgrade_type = kind.value
    return Request(feature_updates=[update], **fields)


def send(outcomes, version, **fields):
    controller, feature_cache = FakeController(outcomes), FakeFeatureCache()
    body = build_request(version, **fields)
    response = answer(update_features.handle, controller, feature_cache, body, version=version)
    return response, controller, feature_cache


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE])
def test_update_is_passed_to_the_controller_in_every_version(version, kind):
    response, controller, feature_cache = send({"f": None}, version, kind=kind)
    options = {"is_atomic": version >= 2, "should_write": True}
    assert controller.asked == (([FeatureUpdate("f", 2, kind)],), options)
    assert (response.error_code, feature_cache.refreshes) == (0, 1)
    results = [(each.feature, each.error_code) for each in response.results]
    assert results == ([("f", 0)] if version < 2 else [])


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_validate_only_writes_nothing(version):
    _, controller, _ = send({"f": None}, version, validate_only=True)
    assert not controller.asked[1]["should_write"]


@pytest.mark.parametrize("code", [0, 4, -1])
def test_other_upgrade_types_are_passed_as_unknown(code):
    body = build_request(1)
    body.feature_updates[0].upgrade_type = code
    controller = FakeController({})
    answer(update_features.handle, controller, FakeFeatureCache(), body, version=1)
    assert controller.asked[0][0][0].upgrade_type is UpgradeType.UNKNOWN


def test_versions_before_2_return_a_result_per_feature():
    response, _, _ = send({"f": None, "g": InvalidRequest("not that")}, 1)
    assert response.error_code == 0
    results = [(each.feature, each.error_code, each.error_message) for each in response.results]
    assert results == [("f", 0, None), ("g", ErrorCode.INVALID_REQUEST.code, "not that")]


def test_version_2_returns_the_first_error():
    response, _, _ = send({"f": None, "g": REJECTED}, 2)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION.code
    assert response.error_message == "no"


def test_not_controller_error_is_raised():
    with pytest.raises(NotController):
        send(NotController(), 2)
