"""Who is answered while the broker starts, and who waits."""

import asyncio

import pytest

from odradek.broker.call import Parked, Peer
from odradek.broker.held_back import HeldBack
from odradek.broker.logs import TRACE
from odradek.protocol.api_keys import ApiKey
from tests.support.calls import in_the_end

PEER = Peer("here-there-0", "127.0.0.1", "PLAINTEXT")


def frame_of(key):
    return memoryview(bytearray(int(key).to_bytes(2, "big") + bytes(20)))


def at_once(frame, peer):
    return [b"answer"]


async def later(frame, peer):
    return [b"answer"]


@pytest.mark.parametrize(
    "key", [ApiKey.UPDATE_METADATA, ApiKey.LEADER_AND_ISR, ApiKey.API_VERSIONS]
)
def test_the_controller_and_whoever_asks_what_is_served_need_not_wait(key):
    assert HeldBack(at_once)(frame_of(key), PEER) == [b"answer"]


@pytest.mark.parametrize("answerer", [at_once, later])
async def test_everybody_else_waits_until_the_broker_is_ready(answerer):
    held_back = HeldBack(answerer)
    waiting = held_back(frame_of(ApiKey.METADATA), PEER)
    assert isinstance(waiting, Parked)
    assert waiting.needs_frame
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(in_the_end(waiting))
        await asyncio.sleep(0)
        assert not task.done()
        assert held_back.let_go() is answerer
    assert task.result() == [b"answer"]


def test_since_when_it_waits_is_noted_for_whoever_wants_to_know(caplog):
    caplog.set_level(TRACE, "odradek.request")
    peer = Peer("here-there-1", "127.0.0.1", "PLAINTEXT")
    HeldBack(at_once)(frame_of(ApiKey.METADATA), peer)
    since = peer.queued_at
    assert since
    HeldBack(at_once)(frame_of(ApiKey.METADATA), peer)
    assert peer.queued_at == since, "it was in the queue before"
