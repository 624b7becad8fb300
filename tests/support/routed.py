"""A request that goes through a router of one route, and the answer that comes out."""

from odradek.broker.request import RequestContext
from odradek.broker.router import Route, Router
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, decode_prefix
from odradek.protocol.header import ResponseHeader, request_frame, response_header_version

PEER = RequestContext("here-there-0", "127.0.0.1", "PLAINTEXT")
REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def frame_of(key, version, request):
    whole = b"".join(request_frame(key, version, 7, "client", request))
    return memoryview(bytearray(whole[4:]))


def heartbeat(handle, version=4):
    router = Router({ApiKey.HEARTBEAT: Route(ApiKey.HEARTBEAT, handle)})
    return router(frame_of(ApiKey.HEARTBEAT, version, REQUEST), PEER)


def answer_in(parts, message=HeartbeatResponse, key=ApiKey.HEARTBEAT, version=4):
    whole = b"".join(parts)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    header, position = decode_prefix(
        ResponseHeader, response_header_version(key, version), whole[4:]
    )
    assert header.correlation_id == 7
    return decode(message, version, whole[4:], position)
