"""The known APIs."""

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.registry import all_apis, api


def test_every_key_has_a_request_and_a_response_of_that_key():
    assert [known.key for known in all_apis()] == list(ApiKey)
    for known in all_apis():
        assert known.request.__schema__.key == known.key
        assert known.response.__schema__.key == known.key
        assert known.request.__schema__.name == known.name + "Request"
        assert known.response.__schema__.name == known.name + "Response"


def test_both_directions_have_the_same_versions():
    for known in all_apis():
        assert known.response.__schema__.versions == known.versions
        assert known.response.__schema__.flexible == known.flexible


def test_an_unstable_version_has_a_schema_but_is_not_stable():
    offset_commit = api(ApiKey.OFFSET_COMMIT)
    assert str(offset_commit.versions) == "0-10"
    assert str(offset_commit.stable) == "0-9"


def test_without_unstable_versions_all_are_stable():
    assert api(ApiKey.PRODUCE).stable == api(ApiKey.PRODUCE).versions


def test_an_api_of_which_all_is_unstable_has_nothing_to_advertise():
    share_fetch = api(ApiKey.SHARE_FETCH)
    assert 0 in share_fetch.versions
    assert 0 not in share_fetch.stable
