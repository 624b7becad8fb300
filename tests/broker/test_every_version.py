"""Each API in each version that is advertised, asked for once of a running broker."""

from unittest.mock import MagicMock

import pytest

from odradek.broker.routes import routes
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.header import KEY_AND_VERSION
from tests.support.broker_stores import broker
from tests.support.minimal_requests import ERROR_CODES, VALUES, prepared
from tests.support.wire_client import WireClient, call, error_codes, frame

__all__ = ["broker"]

OWN_NAME = {"client_software_name": "wire-client", "client_software_version": "1"}
SERVED = {key: route.versions for key, route in routes(MagicMock()).items()}
EVERY_VERSION = [
    pytest.param(key, version, id=f"{key.name}-v{version}")
    for key, versions in SERVED.items()
    for version in range(versions.low, versions.high + 1)
]
UNSUPPORTED = [
    pytest.param(key, version, id=f"{key.name}-v{version}")
    for key, versions in SERVED.items()
    for version in {-1, versions.low - 1, versions.high + 1, 32_767}
    if key is not ApiKey.API_VERSIONS
]


@pytest.fixture(scope="module")
def scene(broker):
    return prepared(broker.address, str(broker.data_dir))


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_every_version_that_is_advertised_is_answered(scene, key, version):
    answer = call(scene.address, key, version, **VALUES[key](scene, version))
    expected = ERROR_CODES.get(key, ErrorCode.NONE).code
    assert error_codes(answer) <= {0, expected}, answer


@pytest.mark.parametrize("version", range(5))
def test_what_is_advertised_is_what_there_are_routes_for(broker, version):
    answer = call(broker.address, ApiKey.API_VERSIONS, version, **OWN_NAME)
    advertised = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert advertised == {key: (each.low, each.high) for key, each in SERVED.items()}


@pytest.mark.parametrize(("key", "version"), UNSUPPORTED)
def test_a_version_that_is_not_served_closes_the_connection(broker, key, version):
    with WireClient(broker.address) as client:
        client.send_bytes(of_version(key, version))
        assert client.is_hung_up()


@pytest.mark.parametrize("version", [-1, 5, 100, 32_767])
def test_versions_asked_for_in_an_unknown_version_are_told_as_in_the_first(broker, version):
    with WireClient(broker.address) as client:
        client.send(ApiKey.API_VERSIONS, 0)
        client.answer(ApiKey.API_VERSIONS, 0)
        client.send_bytes(of_version(ApiKey.API_VERSIONS, version))
        answer = client.answer(ApiKey.API_VERSIONS, 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION.code
        assert [each.api_key for each in answer.api_keys] == [ApiKey.API_VERSIONS]
        again = client.call(ApiKey.API_VERSIONS, answer.api_keys[0].max_version, **OWN_NAME)
        assert again.error_code == 0


@pytest.mark.parametrize("key", sorted(set(ApiKey) - set(SERVED)), ids=lambda key: key.name)
def test_an_api_that_is_not_served_closes_the_connection(broker, key):
    with WireClient(broker.address) as client:
        client.send_bytes(frame(key, 0))
        assert client.is_hung_up()


def of_version(key: ApiKey, version: int) -> bytes:
    """A request of a version that may have no schema."""
    raw = bytearray(frame(key, SERVED[key].high))
    KEY_AND_VERSION.pack_into(raw, 4, key, version)
    return bytes(raw)
