"""The request log: requests, responses, and the duration of each stage."""

import asyncio
import logging
import re

import pytest

from odradek.broker.logging_setup import TRACE
from odradek.broker.request import RequestContext
from odradek.broker.request_log import mark_queued
from odradek.broker.router import Route, Router
from odradek.protocol.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.api.heartbeat import HeartbeatResponse
from odradek.protocol.api.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotCoordinator
from tests.support.routed import PEER, REQUEST, answer_in, frame_of, heartbeat


def test_requests_are_logged_at_trace_level(caplog):
    caplog.set_level(TRACE, "kafka.request.logger")
    heartbeat(lambda request: HeartbeatResponse(error_code=0))
    (record,) = caplog.records
    text = record.getMessage()
    for part in ("HEARTBEAT v4", "here-there-0", "client", "group_id='g'", "error_code=0"):
        assert part in text


def test_requests_are_not_logged_at_debug_level(caplog):
    caplog.set_level(logging.DEBUG)
    heartbeat(lambda request: HeartbeatResponse(error_code=0))
    assert not caplog.records


WORK_S = 0.02


class Clock:
    """A clock that only a test advances."""

    def __init__(self):
        self.now = 1.0

    def __call__(self):
        return self.now

    def work(self):
        self.now += WORK_S


def times_in(caplog):
    (record,) = caplog.records
    matches = re.findall(r"(queue|local|waiting|encode) ([0-9.]+)", record.getMessage())
    return {stage: float(ms) for stage, ms in matches}


class TestStageTimes:
    @pytest.fixture(autouse=True)
    def asked_for(self, caplog):
        caplog.set_level(TRACE, "kafka.request.logger")

    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch):
        clock = Clock()
        monkeypatch.setattr("odradek.broker.request_log.perf_counter", clock)
        return clock

    def test_time_of_the_handler(self, caplog, clock):
        def handle(request):
            clock.work()
            return HeartbeatResponse(error_code=0)

        heartbeat(handle)
        assert times_in(caplog) == {"queue": 0, "local": 20, "waiting": 0, "encode": 0}

    async def test_time_that_the_handler_waits_is_apart_from_its_work(self, caplog, clock):
        awakened = asyncio.get_running_loop().create_future()

        def wake():
            for _ in range(3):
                clock.work()
            awakened.set_result(None)

        async def handle(request):
            clock.work()
            asyncio.get_running_loop().call_soon(wake)
            await awakened
            clock.work()
            return HeartbeatResponse(error_code=0)

        await heartbeat(handle)
        assert times_in(caplog) == {"queue": 0, "local": 40, "waiting": 60, "encode": 0}

    async def test_request_that_ends_in_an_error(self, caplog):
        async def handle(request):
            failed = asyncio.get_running_loop().create_future()
            failed.set_exception(NotCoordinator("elsewhere"))
            await failed

        assert answer_in(await heartbeat(handle)).error_code == ErrorCode.NOT_COORDINATOR.code
        assert times_in(caplog).keys() == {"queue", "local", "waiting", "encode"}

    async def test_request_that_fails_while_it_waits(self, caplog, clock):
        failed = asyncio.get_running_loop().create_future()

        async def handle(request):
            await failed

        async with asyncio.TaskGroup() as tasks:
            responding = tasks.create_task(heartbeat(handle))
            await asyncio.sleep(0)
            clock.work()
            failed.set_exception(NotCoordinator("elsewhere"))
        assert answer_in(responding.result()).error_code == ErrorCode.NOT_COORDINATOR.code
        assert times_in(caplog)["waiting"] == 20

    def test_time_in_the_queue_between_threads(self, caplog, clock):
        context = RequestContext("here-there-1", "127.0.0.1", "PLAINTEXT")
        mark_queued(context)
        clock.work()
        route = Route(ApiKey.HEARTBEAT, lambda request: HeartbeatResponse(error_code=0))
        router = Router({ApiKey.HEARTBEAT: route})
        router(frame_of(ApiKey.HEARTBEAT, 4, REQUEST), context)
        assert times_in(caplog)["queue"] == 20
        caplog.clear()
        router(frame_of(ApiKey.HEARTBEAT, 4, REQUEST), context)
        assert times_in(caplog)["queue"] == 0

    def test_time_to_encode_the_response(self, caplog, clock, monkeypatch):
        def slowly(*arguments):
            clock.work()
            return []

        monkeypatch.setattr("odradek.broker.router.response_frame", slowly)
        heartbeat(lambda request: HeartbeatResponse(error_code=0))
        assert times_in(caplog) == {"queue": 0, "local": 0, "waiting": 0, "encode": 20}


def test_records_are_logged_by_size_only(caplog):
    caplog.set_level(TRACE, "kafka.request.logger")
    partition_response = FetchResponse.Topic.Partition(
        partition_index=3, error_code=0, high_watermark=7, records=bytearray(b"private")
    )
    topic = FetchResponse.Topic(topic="t", partitions=[partition_response])
    response = FetchResponse(responses=[topic])
    route = Route(ApiKey.FETCH, lambda _: response)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    parts = Router({ApiKey.FETCH: route})(frame_of(ApiKey.FETCH, 4, request), PEER)
    assert any(b"private" in bytes(part) for part in parts)
    (record,) = caplog.records
    assert "private" not in record.getMessage()
    for part in ("partition_index=3", "high_watermark=7", "records=b'7 bytes'"):
        assert part in record.getMessage()


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


class TestSecretsAreNotLogged:
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

    def logged(self, caplog, key, version, request, response):
        caplog.set_level(TRACE, "kafka.request.logger")
        bodies = []

        def handle(routed):
            bodies.append(routed.body)
            return response

        Router({key: Route(key, handle)})(frame_of(key, version, request), PEER)
        assert "SECRET" in repr(bodies), "the handler must have them"
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
    def test_secret_configs_are_hidden(self, caplog, key, version, request_type, response_type):
        request = request_type(
            resources=resources(request_type, **self.CONFIGS), validate_only=False
        )
        response = response_type(throttle_time_ms=0, responses=[])
        text = self.logged(caplog, key, version, request, response)
        assert "SECRET" not in text
        assert text.count("value='[hidden]'") == 5
        for part in ("'31'", "'41'", "'51'", "'DEBUG'", "'of.a.plugin'", "value=None"):
            assert part in text

    def test_secret_topic_configs_are_hidden(self, caplog):
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
        response = CreateTopicsResponse(throttle_time_ms=0, topics=[])
        text = self.logged(caplog, ApiKey.CREATE_TOPICS, 5, request, response)
        assert "SECRET" not in text
        assert "'51'" in text
