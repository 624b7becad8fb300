"""Tests of broker/handlers/api_versions.py."""

import pytest

from odradek.broker.handlers import api_versions
from odradek.broker.metadata.agreed_features import Features
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import InvalidRequest
from odradek.protocol.field import Versions
from tests.support.calls import answer, called, versions_of

VERSIONS = versions_of(ApiVersionsRequest)
SERVED = {ApiKey.API_VERSIONS: Versions(0, 4), ApiKey.PRODUCE: Versions(3, 11)}


def request(name="a-client", version="1.2.3"):
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


def answered(*, features=None, version=4):
    return answer(api_versions.handle, SERVED, features or Features(), request(), version=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_served_is_told_in_every_version(version):
    told = answered(version=version)
    assert told.error_code == 0
    assert told.api_keys == [
        ApiVersionsResponse.ApiVersion(api_key=0, min_version=3, max_version=11),
        ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4),
    ]


def test_there_may_be_no_features():
    told = answered(features=Features({}))
    assert (told.supported_features, told.finalized_features) == ([], [])
    assert told.finalized_features_epoch == -1
    assert not told.zk_migration_ready


@pytest.mark.parametrize(("version", "names"), [(0, []), (2, []), (3, ["f"]), (4, ["f", "g"])])
def test_features_are_told_to_those_who_can_read_them(version, names):
    features = Features({"f": Versions(1, 2), "g": Versions(0, 1)}, {"f": 2, "g": 0}, epoch=5)
    told = answered(features=features, version=version)
    assert [each.name for each in told.supported_features] == names
    assert [(each.name, each.max_version_level) for each in told.finalized_features] == (
        [("f", 2)] if names else []
    )
    assert told.finalized_features_epoch == (5 if names else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_clients_software_is_noted_where_it_is_named(version):
    call = called(request("librdkafka", "2.3-x"), version=version)
    api_versions.handle(SERVED, Features(), call)
    noted = call.peer.client_software_name, call.peer.client_software_version
    assert noted == (("librdkafka", "2.3-x") if version >= 3 else ("unknown", "unknown"))


@pytest.mark.parametrize("text", ["", "-a", "a.", "a b", "a_b", "ä", "a\n"])
def test_software_has_a_plain_name_and_version(text):
    for broken in (request(name=text), request(version=text)):
        call = called(broken, version=3)
        with pytest.raises(InvalidRequest):
            api_versions.handle(SERVED, Features(), call)
        assert call.peer.client_software_name == "unknown"
        assert api_versions.handle(SERVED, Features(), called(broken, version=2))
