"""Requests each API of a running broker once in each advertised version."""

from unittest.mock import MagicMock

import pytest

from odradek.broker.routes import build_routes
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.header import KEY_AND_VERSION
from tests.support.broker_stores import broker
from tests.support.minimal_requests import ERROR_CODES, VALUES, prepared
from tests.support.wire_client import WireClient, call, error_codes, frame

__all__ = ["broker"]

OWN_NAME = {"client_software_name": "wire-client", "client_software_version": "1"}
SERVED = {key: route.versions for key, route in build_routes(MagicMock()).items()}
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
def test_every_advertised_version_is_answered(scene, key, version):
    response = call(scene.address, key, version, **VALUES[key](scene, version))
    expected = ERROR_CODES.get(key, ErrorCode.NONE).code
    assert error_codes(response) <= {0, expected}, response


@pytest.mark.parametrize("version", range(5))
def test_advertised_versions_are_those_of_the_routes(broker, version):
    response = call(broker.address, ApiKey.API_VERSIONS, version, **OWN_NAME)
    advertised = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert advertised == {key: (versions.low, versions.high) for key, versions in SERVED.items()}


@pytest.mark.parametrize(("key", "version"), UNSUPPORTED)
def test_unsupported_version_closes_the_connection(broker, key, version):
    with WireClient(broker.address) as client:
        client.send_bytes(frame_with_version(key, version))
        assert client.is_hung_up()


@pytest.mark.parametrize("version", [-1, 5, 100, 32_767])
def test_api_versions_in_unknown_version_is_answered_in_version_0(broker, version):
    with WireClient(broker.address) as client:
        client.send(ApiKey.API_VERSIONS, 0)
        client.answer(ApiKey.API_VERSIONS, 0)
        client.send_bytes(frame_with_version(ApiKey.API_VERSIONS, version))
        response = client.answer(ApiKey.API_VERSIONS, 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION.code
        assert [api.api_key for api in response.api_keys] == [ApiKey.API_VERSIONS]
        second_response = client.call(
            ApiKey.API_VERSIONS, response.api_keys[0].max_version, **OWN_NAME
        )
        assert second_response.error_code == 0


@pytest.mark.parametrize("key", sorted(set(ApiKey) - set(SERVED)), ids=lambda key: key.name)
def test_unsupported_api_closes_the_connection(broker, key):
    with WireClient(broker.address) as client:
        client.send_bytes(frame(key, 0))
        assert client.is_hung_up()


def frame_with_version(key: ApiKey, version: int) -> bytes:
    """Returns a request in a version that may have no schema."""
    raw = bytearray(frame(key, SERVED[key].high))
    KEY_AND_VERSION.pack_into(raw, 4, key, version)
    return bytes(raw)
