"""What every API has in common: from the bytes of a request to the parts of its answer."""

import asyncio
import inspect
import logging
import re
import time

import pytest

from odradek.broker.call import Disconnect, Parked, Peer
from odradek.broker.logs import TRACE
from odradek.broker.request_log import stamp
from odradek.broker.router import Route, Router
from odradek.controller.store.base import SessionExpired
from odradek.protocol.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, decode_prefix, encode_bytes
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import DecodeError, NotCoordinator
from odradek.protocol.header import ResponseHeader, request_frame, response_header_version

PEER = Peer("here-there-0", "127.0.0.1", "PLAINTEXT")
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


def test_every_request_is_logged_for_whoever_asks_for_it(caplog):
    caplog.set_level(TRACE, "odradek.request")
    heartbeat(lambda call: HeartbeatResponse(error_code=0))
    (record,) = caplog.records
    text = record.getMessage()
    for part in ("HEARTBEAT v4", "here-there-0", "client", "group_id='g'", "error_code=0"):
        assert part in text


def test_and_for_nobody_else(caplog):
    caplog.set_level(logging.DEBUG)
    heartbeat(lambda call: HeartbeatResponse(error_code=0))
    assert not caplog.records


WORK_S = 0.02


def times_in(caplog):
    (record,) = caplog.records
    found = re.findall(r"(queue|local|waiting|encode) ([0-9.]+)", record.getMessage())
    return {stage: float(ms) for stage, ms in found}


class TestTheRequestLogHasTheTimesOf:
    @pytest.fixture(autouse=True)
    def asked_for(self, caplog):
        caplog.set_level(TRACE, "odradek.request")

    def test_the_handler_at_work(self, caplog):
        def handle(call):
            time.sleep(WORK_S)
            return HeartbeatResponse(error_code=0)

        heartbeat(handle)
        times = times_in(caplog)
        assert times["local"] >= WORK_S * 1000
        assert max(times["queue"], times["waiting"], times["encode"]) < WORK_S * 1000

    async def test_the_handler_asleep_apart_from_its_work_in_between(self, caplog):
        def work():
            time.sleep(WORK_S)

        async def handle(call):
            work()
            await asyncio.sleep(3 * WORK_S)
            work()
            return HeartbeatResponse(error_code=0)

        await heartbeat(handle)
        times = times_in(caplog)
        assert times["local"] >= 2 * WORK_S * 1000
        assert times["waiting"] >= 2.9 * WORK_S * 1000

    async def test_what_ends_in_a_refusal(self, caplog):
        async def handle(call):
            refused = asyncio.get_running_loop().create_future()
            refused.set_exception(NotCoordinator("elsewhere"))
            await refused

        assert answer_in(await heartbeat(handle)).error_code == ErrorCode.NOT_COORDINATOR.code
        assert times_in(caplog).keys() == {"queue", "local", "waiting", "encode"}

    async def test_what_sees_its_failure_while_it_waits(self, caplog):
        refused = asyncio.get_running_loop().create_future()

        async def handle(call):
            await refused

        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(heartbeat(handle))
            await asyncio.sleep(0)
            refused.set_exception(NotCoordinator("elsewhere"))
        assert answer_in(answering.result()).error_code == ErrorCode.NOT_COORDINATOR.code
        assert times_in(caplog)["waiting"] > 0

    def test_the_queue_between_threads(self, caplog):
        peer = Peer("here-there-1", "127.0.0.1", "PLAINTEXT")
        stamp(peer)
        time.sleep(WORK_S)
        route = Route(ApiKey.HEARTBEAT, lambda call: HeartbeatResponse(error_code=0))
        router = Router({ApiKey.HEARTBEAT: route})
        router(frame_of(ApiKey.HEARTBEAT, 4, REQUEST), peer)
        assert times_in(caplog)["queue"] >= WORK_S * 1000
        caplog.clear()
        router(frame_of(ApiKey.HEARTBEAT, 4, REQUEST), peer)
        assert times_in(caplog)["queue"] == 0

    def test_encoding(self, caplog, monkeypatch):
        def slowly(*arguments):
            time.sleep(WORK_S)
            return []

        monkeypatch.setattr("odradek.broker.router.response_frame", slowly)
        heartbeat(lambda call: HeartbeatResponse(error_code=0))
        assert times_in(caplog)["encode"] >= WORK_S * 1000


def resources(request, **configs):
    operation = {"config_operation": 0} if request is IncrementalAlterConfigsRequest else {}
    kinds = {"topic": 2, "broker": 4, "logger": 8, "unheard_of": 77}
    return [
        request.Resource(
            resource_type=kinds[kind],
            resource_name="r",
            configs=[
                request.Resource.Config(name=name, value=value, **operation)
                for name, value in pairs
            ],
        )
        for kind, pairs in configs.items()
    ]


class TestTheRequestLogHasNoSecrets:
    CONFIGS = {  # noqa: RUF012
        "broker": [
            ("zookeeper.sasl.jaas.config", "SECRET"),
            ("listener.name.internal.ssl.keystore.password", "SECRET"),
            ("listener.name.internal.max.connections", "31"),
            ("of.a.plugin", "SECRET"),
            ("log.retention.ms", "41"),
            ("log.segment.bytes", None),
        ],
        "topic": [("retention.ms", "51"), ("of.a.plugin", "SECRET")],
        "logger": [("odradek.broker", "DEBUG")],
        "unheard_of": [("log.retention.ms", "SECRET")],
    }

    def logged(self, caplog, key, version, request, answer):
        caplog.set_level(TRACE, "odradek.request")
        seen = []

        def handle(call):
            seen.append(call.request)
            return answer

        Router({key: Route(key, handle)})(frame_of(key, version, request), PEER)
        assert "SECRET" in repr(seen), "the handler must have them"
        (record,) = caplog.records
        return record.getMessage()

    @pytest.mark.parametrize(
        ("key", "version", "request_type", "response_type"),
        [
            (ApiKey.ALTER_CONFIGS, 2, AlterConfigsRequest, AlterConfigsResponse),
            (
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                1,
                IncrementalAlterConfigsRequest,
                IncrementalAlterConfigsResponse,
            ),
        ],
        ids=["all", "incrementally"],
    )
    def test_where_configurations_are_changed(
        self, caplog, key, version, request_type, response_type
    ):
        request = request_type(
            resources=resources(request_type, **self.CONFIGS), validate_only=False
        )
        answer = response_type(throttle_time_ms=0, responses=[])
        text = self.logged(caplog, key, version, request, answer)
        assert "SECRET" not in text
        assert text.count("value='[hidden]'") == 5
        for part in ("'31'", "'41'", "'51'", "'DEBUG'", "'of.a.plugin'", "value=None"):
            assert part in text

    def test_where_topics_are_created(self, caplog):
        topic = CreateTopicsRequest.Topic(
            name="t",
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[
                CreateTopicsRequest.Topic.Config(name="of.a.plugin", value="SECRET"),
                CreateTopicsRequest.Topic.Config(name="retention.ms", value="51"),
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1, validate_only=False)
        answer = CreateTopicsResponse(throttle_time_ms=0, topics=[])
        text = self.logged(caplog, ApiKey.CREATE_TOPICS, 5, request, answer)
        assert "SECRET" not in text
        assert "'51'" in text


def test_encoding_needs_no_more_than_the_protocol():
    parts = heartbeat(lambda call: HeartbeatResponse(error_code=0))
    assert b"".join(parts)[9:] == encode_bytes(HeartbeatResponse(error_code=0), 4)
