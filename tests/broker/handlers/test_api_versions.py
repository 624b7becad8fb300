"""Tests of broker/handlers/api_versions.py."""

import pytest

from odradek.broker.handlers import api_versions
from odradek.broker.metadata.finalized_feature_cache import Features
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import InvalidRequest
from odradek.protocol.field import Versions
from tests.support.calls import answer, called, versions_of

VERSIONS = versions_of(ApiVersionsRequest)
SERVED = {ApiKey.API_VERSIONS: Versions(0, 4), ApiKey.PRODUCE: Versions(3, 11)}


def build_request(name="a-client", version="1.2.3"):
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


def api_versions_response(*, features=None, version=4):
    return answer(
        api_versions.handle, SERVED, features or Features(), build_request(), version=version
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_served_apis_are_listed_in_every_version(version):
    response = api_versions_response(version=version)
    assert response.error_code == 0
    assert response.api_keys == [
        ApiVersionsResponse.ApiVersion(api_key=0, min_version=3, max_version=11),
        ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4),
    ]


def test_features_may_be_empty():
    response = api_versions_response(features=Features({}))
    assert (response.supported_features, response.finalized_features) == ([], [])
    assert response.finalized_features_epoch == -1
    assert not response.zk_migration_ready


@pytest.mark.parametrize(("version", "names"), [(0, []), (2, []), (3, ["f"]), (4, ["f", "g"])])
def test_features_are_returned_in_versions_that_can_encode_them(version, names):
    features = Features({"f": Versions(1, 2), "g": Versions(0, 1)}, {"f": 2, "g": 0}, epoch=5)
    response = api_versions_response(features=features, version=version)
    assert [each.name for each in response.supported_features] == names
    assert [(each.name, each.max_version_level) for each in response.finalized_features] == (
        [("f", 2)] if names else []
    )
    assert response.finalized_features_epoch == (5 if names else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_client_software_is_recorded_from_version_3_on(version):
    request = called(build_request("librdkafka", "2.3-x"), version=version)
    api_versions.handle(SERVED, Features(), request)
    recorded = request.context.client_software_name, request.context.client_software_version
    assert recorded == (("librdkafka", "2.3-x") if version >= 3 else ("unknown", "unknown"))


@pytest.mark.parametrize("text", ["", "-a", "a.", "a b", "a_b", "ä", "a\n"])
def test_invalid_software_name_or_version_is_rejected(text):
    for invalid in (build_request(name=text), build_request(version=text)):
        request = called(invalid, version=3)
        with pytest.raises(InvalidRequest):
            api_versions.handle(SERVED, Features(), request)
        assert request.context.client_software_name == "unknown"
        assert api_versions.handle(SERVED, Features(), called(invalid, version=2))
