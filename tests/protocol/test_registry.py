"""The registry of all APIs."""

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.registry import all_apis, api


def test_every_api_key_has_a_request_and_a_response():
    assert [registered.key for registered in all_apis()] == list(ApiKey)
    for registered in all_apis():
        assert registered.request.__schema__.key == registered.key
        assert registered.response.__schema__.key == registered.key
        assert registered.request.__schema__.name == registered.name + "Request"
        assert registered.response.__schema__.name == registered.name + "Response"


def test_request_and_response_have_the_same_versions():
    for registered in all_apis():
        assert registered.response.__schema__.versions == registered.versions
        assert registered.response.__schema__.flexible == registered.flexible


def test_unstable_version_has_a_schema_but_is_not_stable():
    offset_commit = api(ApiKey.OFFSET_COMMIT)
    assert str(offset_commit.versions) == "0-10"
    assert str(offset_commit.stable) == "0-9"


def test_without_unstable_versions_all_are_stable():
    assert api(ApiKey.PRODUCE).stable == api(ApiKey.PRODUCE).versions


def test_api_with_only_unstable_versions_has_no_stable_version():
    share_fetch = api(ApiKey.SHARE_FETCH)
    assert 0 in share_fetch.versions
    assert 0 not in share_fetch.stable
