"""A broker asks itself: by its handlers, as they are, with no connection in between."""

import asyncio

import pytest

from odradek.broker.background import Background
from odradek.broker.call import Parked
from odradek.broker.own_client import OwnClient
from odradek.broker.router import Route
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotCoordinator
from tests.support.loops import at_end

REQUEST = EndTxnRequest(transactional_id="a", producer_id=7, producer_epoch=0, committed=True)


def client(handle):
    background = Background()
    at_end(background.stop)
    route = Route(ApiKey.END_TXN, handle)
    return OwnClient(
        lambda: {ApiKey.END_TXN: route}, client_id="1", listener="INSIDE", start=background.start
    )


def answer(code=0):
    return EndTxnResponse(throttle_time_ms=0, error_code=code, producer_id=1, producer_epoch=0)


async def test_the_handler_is_given_the_request_as_it_is():
    seen = []

    def handle(call):
        seen.append(call)
        return answer()

    assert client(handle).ask(REQUEST, version=3) == answer()
    (call,) = seen
    assert call.request is REQUEST
    assert (call.version, call.key, call.client_id) == (3, ApiKey.END_TXN, "1")
    assert (call.peer.listener, call.peer.is_own) == ("INSIDE", True)


@pytest.mark.parametrize("failure", [NotCoordinator(), ZeroDivisionError()])
@pytest.mark.parametrize("waits", [False, True])
async def test_what_is_refused_is_an_answer(failure, waits, caplog):
    async def fail():
        raise failure

    def handle(call):
        if waits:
            return fail()
        raise failure

    told = await client(handle).send(REQUEST, version=3)
    is_ours = isinstance(failure, ZeroDivisionError)
    expected = ErrorCode.UNKNOWN_SERVER_ERROR if is_ours else ErrorCode.NOT_COORDINATOR
    assert told.error_code == expected.code
    assert bool(caplog.records) == is_ours


@pytest.mark.parametrize("waits", [False, True], ids=["nobody waits", "who waits goes away"])
async def test_what_has_to_wait_comes_to_its_end_although(waits):
    gate, is_done = asyncio.Event(), asyncio.Event()

    async def rest():
        await gate.wait()
        is_done.set()
        return answer()

    async def begin():
        return Parked(rest)

    asked = client(lambda call: begin()).ask(REQUEST, version=3)
    if waits:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked, 0.001)
    gate.set()
    await asyncio.wait_for(is_done.wait(), 30)


async def test_when_the_broker_stops_it_asks_no_more():
    stopped = client(lambda call: answer())
    stopped.close()
    with pytest.raises(ConnectionError):
        await stopped.send(REQUEST, version=3)
