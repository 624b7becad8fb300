"""Requests that are served or delayed while the broker starts."""

import asyncio

import pytest

from odradek.broker.logging_setup import TRACE
from odradek.broker.request import DelayedOperation, RequestContext
from odradek.broker.startup_gate import StartupGate
from odradek.protocol.api_keys import ApiKey
from tests.support.calls import in_the_end

CONTEXT = RequestContext("here-there-0", "127.0.0.1", "PLAINTEXT")


def frame_of(key):
    return memoryview(bytearray(int(key).to_bytes(2, "big") + bytes(20)))


def serve(frame, context):
    return [b"answer"]


async def serve_async(frame, context):
    return [b"answer"]


@pytest.mark.parametrize(
    "key", [ApiKey.UPDATE_METADATA, ApiKey.LEADER_AND_ISR, ApiKey.API_VERSIONS]
)
def test_controller_requests_and_api_versions_are_served_during_startup(key):
    assert StartupGate(serve)(frame_of(key), CONTEXT) == [b"answer"]


@pytest.mark.parametrize("handler", [serve, serve_async])
async def test_other_requests_wait_until_the_broker_is_ready(handler):
    gate = StartupGate(handler)
    delayed = gate(frame_of(ApiKey.METADATA), CONTEXT)
    assert isinstance(delayed, DelayedOperation)
    assert delayed.needs_frame
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(in_the_end(delayed))
        await asyncio.sleep(0)
        assert not task.done()
        assert gate.open() is handler
    assert task.result() == [b"answer"]


def test_queue_time_begins_at_the_gate_if_requests_are_logged(caplog):
    caplog.set_level(TRACE, "kafka.request.logger")
    context = RequestContext("here-there-1", "127.0.0.1", "PLAINTEXT")
    StartupGate(serve)(frame_of(ApiKey.METADATA), context)
    queued_at = context.queued_at
    assert queued_at
    StartupGate(serve)(frame_of(ApiKey.METADATA), context)
    assert context.queued_at == queued_at, "it was in the queue before"
