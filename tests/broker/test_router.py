"""What every API has in common: from the bytes of a request to the parts of its answer."""

import asyncio
import inspect

import pytest

from odradek.broker.call import Disconnect, Parked, Promised
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


def test_a_handler_is_told_all_about_the_request():
    calls = []

    def handle(call):
        calls.append(call)
        return HeartbeatResponse(error_code=0)

    assert answer_in(heartbeat(handle)) == HeartbeatResponse(error_code=0)
    (call,) = calls
    assert (call.request, call.version, call.key) == (REQUEST, 4, ApiKey.HEARTBEAT)
    assert (call.correlation_id, call.client_id, call.peer) == (7, "client", PEER)


def test_no_answer_is_no_answer():
    assert heartbeat(lambda call: None) is None


async def test_an_answer_may_come_later():
    async def later():
        return HeartbeatResponse(error_code=3)

    waiting = heartbeat(lambda call: later())
    assert inspect.isawaitable(waiting)
    assert answer_in(await waiting).error_code == 3


@pytest.mark.parametrize("is_at_work_first", [False, True])
async def test_what_a_handler_parks_is_parked_for_the_network_too(is_at_work_first):
    async def refuse_later():
        raise NotCoordinator("elsewhere")

    parked = Parked(refuse_later, ends_alone=True)

    async def work():
        return parked

    waiting = heartbeat(lambda call: work() if is_at_work_first else parked)
    if is_at_work_first:
        waiting = await waiting
    assert isinstance(waiting, Parked)
    assert (waiting.ends_alone, waiting.needs_frame) == (True, False)
    assert answer_in(await waiting).error_code == ErrorCode.NOT_COORDINATOR.code


@pytest.mark.parametrize(
    ("finish", "code"),
    [
        (lambda code: HeartbeatResponse(error_code=code), 3),
        (lambda code: refuse(code), ErrorCode.NOT_COORDINATOR.code),
        (lambda code: fail(code), ErrorCode.UNKNOWN_SERVER_ERROR.code),
    ],
)
async def test_what_a_handler_promises_is_finished_by_a_plain_call(finish, code):
    future = asyncio.get_running_loop().create_future()
    waiting = heartbeat(lambda call: Promised(future, finish))
    assert isinstance(waiting, Promised)
    assert waiting.future is future
    assert answer_in(waiting.finish(3)).error_code == code
    future.set_result(3)
    assert answer_in(await waiting).error_code == code


def refuse(call):
    raise NotCoordinator("elsewhere")


def fail(call):
    raise ValueError("a mistake")


async def refuse_later(call):
    refuse(call)


async def fail_later(call):
    fail(call)


@pytest.mark.parametrize(
    ("handle", "code"),
    [
        (refuse, ErrorCode.NOT_COORDINATOR),
        (refuse_later, ErrorCode.NOT_COORDINATOR),
        (fail, ErrorCode.UNKNOWN_SERVER_ERROR),
        (fail_later, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_refusal_and_a_mistake_of_ours_become_the_answer(handle, code, caplog):
    parts = heartbeat(handle)
    if inspect.isawaitable(parts):
        parts = await parts
    assert answer_in(parts).error_code == code.code
    is_mistake = code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert [bool(record.exc_info) for record in caplog.records] == [True] * is_mistake


async def test_that_the_store_forgot_us_meanwhile_is_no_mistake(caplog):
    async def expire():
        raise SessionExpired("/brokers/topics/t")

    answer = answer_in(await heartbeat(lambda call: expire()))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR.code
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert record.getMessage().endswith("failed: SessionExpired at /brokers/topics/t")


def test_an_error_message_is_told_where_there_is_room_for_it():
    router = Router({ApiKey.DESCRIBE_CLUSTER: Route(ApiKey.DESCRIBE_CLUSTER, refuse)})
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    parts = router(frame_of(ApiKey.DESCRIBE_CLUSTER, 0, request), PEER)
    answer = answer_in(parts, DescribeClusterResponse, ApiKey.DESCRIBE_CLUSTER, 0)
    assert (answer.error_code, answer.error_message) == (16, "elsewhere")


async def test_a_handler_may_close_the_connection():
    def disconnect(call):
        raise Disconnect("enough")

    async def disconnect_later(call):
        raise Disconnect("enough")

    with pytest.raises(Disconnect):
        heartbeat(disconnect)
    with pytest.raises(Disconnect):
        await heartbeat(disconnect_later)


class TestWhatIsNotServed:
    def test_closes_the_connection(self):
        with pytest.raises(Disconnect, match="HEARTBEAT is not served"):
            Router({})(frame_of(ApiKey.HEARTBEAT, 0, REQUEST), PEER)

    def test_in_a_version_closes_it_too(self):
        frame = frame_of(ApiKey.HEARTBEAT, 4, REQUEST)
        frame[2:4] = (99).to_bytes(2, "big")
        router = Router({ApiKey.HEARTBEAT: Route(ApiKey.HEARTBEAT, refuse)})
        with pytest.raises(Disconnect, match="HEARTBEAT v99 is not served"):
            router(frame, PEER)

    def test_but_api_versions_is_answered_so_that_the_client_can_ask_again(self):
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        frame = frame_of(ApiKey.API_VERSIONS, 3, request)
        frame[2:4] = (99).to_bytes(2, "big")
        router = Router({ApiKey.API_VERSIONS: Route(ApiKey.API_VERSIONS, refuse)})
        answer = answer_in(router(frame, PEER), ApiVersionsResponse, ApiKey.API_VERSIONS, 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION.code
        assert [(each.api_key, each.min_version) for each in answer.api_keys] == [(18, 0)]

    @pytest.mark.parametrize("frame", [b"", b"\0", b"\x7f\xff\0\0\0\0\0\0"])
    def test_and_what_is_no_request(self, frame):
        with pytest.raises(DecodeError):
            Router({})(memoryview(bytearray(frame)), PEER)

    def test_and_a_body_that_is_none(self):
        frame = frame_of(ApiKey.HEARTBEAT, 4, REQUEST)
        router = Router({ApiKey.HEARTBEAT: Route(ApiKey.HEARTBEAT, refuse)})
        with pytest.raises(DecodeError):
            router(frame[:-2], PEER)


def test_bytes_beyond_the_request_are_left_alone_as_in_kafka():
    whole = bytes(frame_of(ApiKey.HEARTBEAT, 4, REQUEST)) + b"\1\0\0"
    router = Router({ApiKey.HEARTBEAT: Route(ApiKey.HEARTBEAT, refuse)})
    assert answer_in(router(memoryview(bytearray(whole)), PEER)).error_code == 16


def test_encoding_needs_no_more_than_the_protocol():
    parts = heartbeat(lambda call: HeartbeatResponse(error_code=0))
    assert b"".join(parts)[9:] == encode_bytes(HeartbeatResponse(error_code=0), 4)
