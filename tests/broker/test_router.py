"""From the bytes of a request to the parts of its response."""

import asyncio
import inspect

import pytest

from odradek.broker.request import DelayedFuture, DelayedOperation, Disconnect
from odradek.broker.router import Route, Router
from odradek.controller.store.base import SessionExpired
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.api.heartbeat import HeartbeatResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import encode_bytes
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import DecodeError, NotCoordinator
from tests.support.routed import PEER, REQUEST, answer_in, frame_of, heartbeat


def test_handler_gets_the_request_with_its_header_and_context():
    requests = []

    def handle(request):
        requests.append(request)
        return HeartbeatResponse(error_code=0)

    assert answer_in(heartbeat(handle)) == HeartbeatResponse(error_code=0)
    (request,) = requests
    assert (request.body, request.version, request.api_key) == (REQUEST, 4, ApiKey.HEARTBEAT)
    assert (request.correlation_id, request.client_id, request.context) == (7, "client", PEER)


def test_handler_may_send_no_response():
    assert heartbeat(lambda request: None) is None


async def test_handler_may_respond_later():
    async def later():
        return HeartbeatResponse(error_code=3)

    delayed = heartbeat(lambda request: later())
    assert inspect.isawaitable(delayed)
    assert answer_in(await delayed).error_code == 3


@pytest.mark.parametrize("is_async", [False, True])
async def test_delayed_operation_of_a_handler_is_passed_to_the_network(is_async):
    async def reject_later():
        raise NotCoordinator("elsewhere")

    operation = DelayedOperation(reject_later, completes_on_shutdown=True)

    async def work():
        return operation

    delayed = heartbeat(lambda request: work() if is_async else operation)
    if is_async:
        delayed = await delayed
    assert isinstance(delayed, DelayedOperation)
    assert (delayed.completes_on_shutdown, delayed.needs_frame) == (True, False)
    assert answer_in(await delayed).error_code == ErrorCode.NOT_COORDINATOR.code


@pytest.mark.parametrize(
    ("finish", "code"),
    [
        (lambda code: HeartbeatResponse(error_code=code), 3),
        (lambda code: reject(code), ErrorCode.NOT_COORDINATOR.code),
        (lambda code: fail(code), ErrorCode.UNKNOWN_SERVER_ERROR.code),
    ],
)
async def test_delayed_future_of_a_handler_is_completed_by_a_plain_function(finish, code):
    future = asyncio.get_running_loop().create_future()
    delayed = heartbeat(lambda request: DelayedFuture(future, finish))
    assert isinstance(delayed, DelayedFuture)
    assert delayed.future is future
    assert answer_in(delayed.build_response(3)).error_code == code
    future.set_result(3)
    assert answer_in(await delayed).error_code == code


def reject(request):
    raise NotCoordinator("elsewhere")


def fail(request):
    raise ValueError("a mistake")


async def reject_later(request):
    reject(request)


async def fail_later(request):
    fail(request)


@pytest.mark.parametrize(
    ("handle", "code"),
    [
        (reject, ErrorCode.NOT_COORDINATOR),
        (reject_later, ErrorCode.NOT_COORDINATOR),
        (fail, ErrorCode.UNKNOWN_SERVER_ERROR),
        (fail_later, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_errors_become_error_responses(handle, code, caplog):
    parts = heartbeat(handle)
    if inspect.isawaitable(parts):
        parts = await parts
    assert answer_in(parts).error_code == code.code
    is_unexpected = code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert [bool(record.exc_info) for record in caplog.records] == [True] * is_unexpected


async def test_expired_store_session_is_logged_as_a_warning(caplog):
    async def expire():
        raise SessionExpired("/brokers/topics/t")

    response = answer_in(await heartbeat(lambda request: expire()))
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR.code
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    message = record.getMessage()
    assert message.startswith("Unexpected error handling request HEARTBEAT v")
    assert message.endswith(": SessionExpired at /brokers/topics/t")


def test_error_message_is_sent_if_the_response_has_a_field_for_it():
    router = Router({ApiKey.DESCRIBE_CLUSTER: Route(ApiKey.DESCRIBE_CLUSTER, reject)})
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    parts = router(frame_of(ApiKey.DESCRIBE_CLUSTER, 0, request), PEER)
    response = answer_in(parts, DescribeClusterResponse, ApiKey.DESCRIBE_CLUSTER, 0)
    assert (response.error_code, response.error_message) == (16, "elsewhere")


async def test_handler_may_close_the_connection():
    def disconnect(request):
        raise Disconnect("enough")

    async def disconnect_later(request):
        raise Disconnect("enough")

    with pytest.raises(Disconnect):
        heartbeat(disconnect)
    with pytest.raises(Disconnect):
        await heartbeat(disconnect_later)


class TestUnsupportedRequests:
    def test_unsupported_api_closes_the_connection(self):
        with pytest.raises(Disconnect, match="HEARTBEAT is not supported"):
            Router({})(frame_of(ApiKey.HEARTBEAT, 0, REQUEST), PEER)

    def test_unsupported_version_closes_the_connection(self):
        frame = frame_of(ApiKey.HEARTBEAT, 4, REQUEST)
        frame[2:4] = (99).to_bytes(2, "big")
        router = Router({ApiKey.HEARTBEAT: Route(ApiKey.HEARTBEAT, reject)})
        with pytest.raises(Disconnect, match="HEARTBEAT v99 is not supported"):
            router(frame, PEER)

    def test_api_versions_in_unknown_version_is_answered(self):
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        frame = frame_of(ApiKey.API_VERSIONS, 3, request)
        frame[2:4] = (99).to_bytes(2, "big")
        router = Router({ApiKey.API_VERSIONS: Route(ApiKey.API_VERSIONS, reject)})
        response = answer_in(router(frame, PEER), ApiVersionsResponse, ApiKey.API_VERSIONS, 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION.code
        assert [(api.api_key, api.min_version) for api in response.api_keys] == [(18, 0)]

    @pytest.mark.parametrize("frame", [b"", b"\0", b"\x7f\xff\0\0\0\0\0\0"])
    def test_invalid_header_is_a_decode_error(self, frame):
        with pytest.raises(DecodeError):
            Router({})(memoryview(bytearray(frame)), PEER)

    def test_invalid_body_is_a_decode_error(self):
        frame = frame_of(ApiKey.HEARTBEAT, 4, REQUEST)
        router = Router({ApiKey.HEARTBEAT: Route(ApiKey.HEARTBEAT, reject)})
        with pytest.raises(DecodeError):
            router(frame[:-2], PEER)


def test_bytes_beyond_the_request_are_ignored_as_in_kafka():
    whole = bytes(frame_of(ApiKey.HEARTBEAT, 4, REQUEST)) + b"\1\0\0"
    router = Router({ApiKey.HEARTBEAT: Route(ApiKey.HEARTBEAT, reject)})
    assert answer_in(router(memoryview(bytearray(whole)), PEER)).error_code == 16


def test_response_is_encoded_by_the_protocol():
    parts = heartbeat(lambda request: HeartbeatResponse(error_code=0))
    assert b"".join(parts)[9:] == encode_bytes(HeartbeatResponse(error_code=0), 4)
