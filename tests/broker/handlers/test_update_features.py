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
REFUSED = KafkaError("no", error=ErrorCode.INVALID_UPDATE_VERSION)


class Agreed:
    """``looks`` is how often somebody had it look."""

    looks = 0

    async def look(self):
        self.looks += 1


def request(version, *, level=2, kind=UpgradeType.UPGRADE, **fields):
    asked = Request.FeatureUpdate(feature="f", max_version_level=level)
    if version == 0:
        asked.allow_downgrade = kind is not UpgradeType.UPGRADE
    else:
        asked.upgrade_type = kind.value
    return Request(feature_updates=[asked], **fields)


def told(outcomes, version, **fields):
    controller, agreed = FakeController(outcomes), Agreed()
    asked = request(version, **fields)
    answered = answer(update_features.handle, controller, agreed, asked, version=version)
    return answered, controller, agreed


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE])
def test_the_controller_is_asked_in_every_version(version, kind):
    answered, controller, agreed = told({"f": None}, version, kind=kind)
    options = {"is_whole": version >= 2, "is_written": True}
    assert controller.asked == (([FeatureUpdate("f", 2, kind)],), options)
    assert (answered.error_code, agreed.looks) == (0, 1)
    results = [(each.feature, each.error_code) for each in answered.results]
    assert results == ([("f", 0)] if version < 2 else [])


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_it_may_be_judged_only(version):
    _, controller, _ = told({"f": None}, version, validate_only=True)
    assert not controller.asked[1]["is_written"]


@pytest.mark.parametrize("code", [0, 4, -1])
def test_no_other_kinds_of_upgrade_are_known(code):
    asked = request(1)
    asked.feature_updates[0].upgrade_type = code
    controller = FakeController({})
    answer(update_features.handle, controller, Agreed(), asked, version=1)
    assert controller.asked[0][0][0].type is UpgradeType.UNKNOWN


def test_older_tools_are_told_of_each_feature():
    answered, _, _ = told({"f": None, "g": InvalidRequest("not that")}, 1)
    assert answered.error_code == 0
    lines = [(each.feature, each.error_code, each.error_message) for each in answered.results]
    assert lines == [("f", 0, None), ("g", ErrorCode.INVALID_REQUEST.code, "not that")]


def test_newer_ones_of_the_first_refusal():
    answered, _, _ = told({"f": None, "g": REFUSED}, 2)
    assert answered.error_code == ErrorCode.INVALID_UPDATE_VERSION.code
    assert answered.error_message == "no"


def test_another_brokers_controller_may_be_in_office():
    with pytest.raises(NotController):
        told(NotController(), 2)
