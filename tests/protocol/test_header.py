"""Request and response headers, and whole frames."""

import pytest

from odradek.protocol.api.api_versions import ApiVersionsResponse
from odradek.protocol.api.fetch import FetchResponse
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, decode_prefix, encode_bytes
from odradek.protocol.errors import DecodeError
from odradek.protocol.file_region import FileRegion
from odradek.protocol.header import (
    RequestHeader,
    ResponseHeader,
    decode_request_header,
    request_frame,
    request_header_version,
    response_frame,
    response_header_version,
)

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")


def joined(parts):
    return b"".join(parts)


def test_only_controlled_shutdown_version_0_has_no_client_id():
    assert request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 0) == 0
    assert request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 1) == 1
    assert request_header_version(ApiKey.PRODUCE, 0) == 1


def test_flexible_versions_have_tags_in_their_headers():
    assert request_header_version(ApiKey.PRODUCE, 8) == 1
    assert request_header_version(ApiKey.PRODUCE, 9) == 2
    assert response_header_version(ApiKey.PRODUCE, 8) == 0
    assert response_header_version(ApiKey.PRODUCE, 9) == 1


def test_api_versions_response_header_never_has_tags():
    assert request_header_version(ApiKey.API_VERSIONS, 3) == 2
    assert response_header_version(ApiKey.API_VERSIONS, 3) == 0
    response = ApiVersionsResponse(error_code=0, api_keys=[])
    frame = joined(response_frame(ApiKey.API_VERSIONS, 3, 7, response))
    assert frame[4:] == bytes.fromhex("00000007") + encode_bytes(response, 3)


def test_client_id_is_never_compact():
    header = RequestHeader(
        request_api_key=12, request_api_version=4, correlation_id=9, client_id="c"
    )
    assert encode_bytes(header, 2) == bytes.fromhex("000c 0004 00000009 0001 63 00")


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("client_id", [None, "", "client"])
def test_request_frame_survives_a_round_trip(version, client_id):
    frame = joined(request_frame(ApiKey.HEARTBEAT, version, 42, client_id, HEARTBEAT))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, position = decode_request_header(frame[4:])
    assert header == RequestHeader(
        request_api_key=12, request_api_version=version, correlation_id=42, client_id=client_id
    )
    assert decode(HeartbeatRequest, version, frame[4:], position) == HEARTBEAT


@pytest.mark.parametrize("version", range(5))
def test_response_frame_survives_a_round_trip(version):
    response = HeartbeatResponse(error_code=27)
    frame = joined(response_frame(ApiKey.HEARTBEAT, version, 42, response))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header_version = response_header_version(ApiKey.HEARTBEAT, version)
    header, position = decode_prefix(ResponseHeader, header_version, frame, 4)
    assert header == ResponseHeader(correlation_id=42)
    assert decode(HeartbeatResponse, version, frame, position) == response


def test_file_region_is_counted_and_passed_through():
    region = FileRegion(descriptor=5, position=0, length=1000)
    partition = FetchResponse.Topic.Partition(
        partition_index=0, error_code=0, high_watermark=1, records=region
    )
    response = FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=[partition])])
    parts = response_frame(ApiKey.FETCH, 12, 1, response)
    assert parts[1] is region
    assert int.from_bytes(parts[0][:4], "big") == sum(map(len, parts)) - 4


@pytest.mark.parametrize("version", [-1, 5, 0x7FFF])
def test_header_of_an_unknown_version_is_read_as_the_nearest_version(version):
    flexible = b"\x00" if version > 3 else b""
    frame = ApiKey.API_VERSIONS.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)
    header, position = decode_request_header(frame + bytes.fromhex("00000001 ffff") + flexible)
    assert header.correlation_id == 1
    assert header.client_id is None
    assert position == 10 + len(flexible)


@pytest.mark.parametrize(
    "frame", [b"", b"\x00", b"\x00\x00\x00", bytes(7), b"\x27\x0f" + bytes(20)]
)
def test_truncated_header_is_a_decode_error(frame):
    with pytest.raises(DecodeError):
        decode_request_header(frame)
