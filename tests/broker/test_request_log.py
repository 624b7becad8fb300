"""A request in the request log: what was asked and answered, and how long each stage took."""

import asyncio
import logging
import re

import pytest

from odradek.broker.call import Peer
from odradek.broker.logs import TRACE
from odradek.broker.request_log import stamp
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


class Clock:
    """Stands still but for what a test lets pass."""

    def __init__(self):
        self.now = 1.0

    def __call__(self):
        return self.now

    def work(self):
        self.now += WORK_S


def times_in(caplog):
    (record,) = caplog.records
    found = re.findall(r"(queue|local|waiting|encode) ([0-9.]+)", record.getMessage())
    return {stage: float(ms) for stage, ms in found}


class TestTheRequestLogHasTheTimesOf:
    @pytest.fixture(autouse=True)
    def asked_for(self, caplog):
        caplog.set_level(TRACE, "odradek.request")

    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch):
        clock = Clock()
        monkeypatch.setattr("odradek.broker.request_log.perf_counter", clock)
        return clock

    def test_the_handler_at_work(self, caplog, clock):
        def handle(call):
            clock.work()
            return HeartbeatResponse(error_code=0)

        heartbeat(handle)
        assert times_in(caplog) == {"queue": 0, "local": 20, "waiting": 0, "encode": 0}

    async def test_the_handler_asleep_apart_from_its_work_in_between(self, caplog, clock):
        woken = asyncio.get_running_loop().create_future()

        def wake():
            for _ in range(3):
                clock.work()
            woken.set_result(None)

        async def handle(call):
            clock.work()
            asyncio.get_running_loop().call_soon(wake)
            await woken
            clock.work()
            return HeartbeatResponse(error_code=0)

        await heartbeat(handle)
        assert times_in(caplog) == {"queue": 0, "local": 40, "waiting": 60, "encode": 0}

    async def test_what_ends_in_a_refusal(self, caplog):
        async def handle(call):
            refused = asyncio.get_running_loop().create_future()
            refused.set_exception(NotCoordinator("elsewhere"))
            await refused

        assert answer_in(await heartbeat(handle)).error_code == ErrorCode.NOT_COORDINATOR.code
        assert times_in(caplog).keys() == {"queue", "local", "waiting", "encode"}

    async def test_what_sees_its_failure_while_it_waits(self, caplog, clock):
        refused = asyncio.get_running_loop().create_future()

        async def handle(call):
            await refused

        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(heartbeat(handle))
            await asyncio.sleep(0)
            clock.work()
            refused.set_exception(NotCoordinator("elsewhere"))
        assert answer_in(answering.result()).error_code == ErrorCode.NOT_COORDINATOR.code
        assert times_in(caplog)["waiting"] == 20

    def test_the_queue_between_threads(self, caplog, clock):
        peer = Peer("here-there-1", "127.0.0.1", "PLAINTEXT")
        stamp(peer)
        clock.work()
        route = Route(ApiKey.HEARTBEAT, lambda call: HeartbeatResponse(error_code=0))
        router = Router({ApiKey.HEARTBEAT: route})
        router(frame_of(ApiKey.HEARTBEAT, 4, REQUEST), peer)
        assert times_in(caplog)["queue"] == 20
        caplog.clear()
        router(frame_of(ApiKey.HEARTBEAT, 4, REQUEST), peer)
        assert times_in(caplog)["queue"] == 0

    def test_encoding(self, caplog, clock, monkeypatch):
        def slowly(*arguments):
            clock.work()
            return []

        monkeypatch.setattr("odradek.broker.router.response_frame", slowly)
        heartbeat(lambda call: HeartbeatResponse(error_code=0))
        assert times_in(caplog) == {"queue": 0, "local": 0, "waiting": 0, "encode": 20}


def test_records_are_not_written_but_their_size_is(caplog):
    caplog.set_level(TRACE, "odradek.request")
    line = FetchResponse.Topic.Partition(
        partition_index=3, error_code=0, high_watermark=7, records=bytearray(b"private")
    )
    topic = FetchResponse.Topic(topic="t", partitions=[line])
    answer = FetchResponse(responses=[topic])
    route = Route(ApiKey.FETCH, lambda call: answer)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    sent = Router({ApiKey.FETCH: route})(frame_of(ApiKey.FETCH, 4, request), PEER)
    assert any(b"private" in bytes(part) for part in sent)
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
