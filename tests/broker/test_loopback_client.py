"""Requests of a broker to itself call its handlers directly, without a connection."""

import asyncio

import pytest

from odradek.broker.loopback_client import LoopbackClient
from odradek.broker.request import DelayedOperation
from odradek.broker.router import Route
from odradek.broker.task_registry import TaskRegistry
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotCoordinator
from tests.support.loops import at_end

REQUEST = EndTxnRequest(transactional_id="a", producer_id=7, producer_epoch=0, committed=True)


def client(handle):
    background = TaskRegistry()
    at_end(background.stop)
    route = Route(ApiKey.END_TXN, handle)
    return LoopbackClient(
        lambda: {ApiKey.END_TXN: route},
        client_id="1",
        listener="INSIDE",
        start_task=background.start,
    )


def response(code=0):
    return EndTxnResponse(throttle_time_ms=0, error_code=code, producer_id=1, producer_epoch=0)


async def test_handler_gets_the_request_object_unchanged():
    requests = []

    def handle(request):
        requests.append(request)
        return response()

    assert client(handle).send_nowait(REQUEST, version=3) == response()
    (request,) = requests
    assert request.body is REQUEST
    assert (request.version, request.api_key, request.client_id) == (3, ApiKey.END_TXN, "1")
    assert (request.context.listener, request.context.is_from_this_broker) == ("INSIDE", True)


@pytest.mark.parametrize("error", [NotCoordinator(), ZeroDivisionError()])
@pytest.mark.parametrize("waits", [False, True])
async def test_error_of_the_handler_becomes_an_error_response(error, waits, caplog):
    async def fail():
        raise error

    def handle(request):
        if waits:
            return fail()
        raise error

    error_response = await client(handle).send(REQUEST, version=3)
    is_unexpected = isinstance(error, ZeroDivisionError)
    expected = ErrorCode.UNKNOWN_SERVER_ERROR if is_unexpected else ErrorCode.NOT_COORDINATOR
    assert error_response.error_code == expected.code
    assert bool(caplog.records) == is_unexpected


@pytest.mark.parametrize("is_awaited", [False, True], ids=["not awaited", "awaiter gives up"])
async def test_delayed_request_completes_even_if_it_is_not_awaited(is_awaited):
    gate, is_done = asyncio.Event(), asyncio.Event()

    async def rest():
        await gate.wait()
        is_done.set()
        return response()

    async def begin():
        return DelayedOperation(rest)

    delayed = client(lambda request: begin()).send_nowait(REQUEST, version=3)
    if is_awaited:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(delayed, 0.001)
    gate.set()
    await asyncio.wait_for(is_done.wait(), 30)


async def test_closed_client_rejects_requests():
    stopped = client(lambda request: response())
    stopped.close()
    with pytest.raises(ConnectionError):
        await stopped.send(REQUEST, version=3)
