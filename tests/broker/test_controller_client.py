"""The controller is asked, whoever it is; one that is paused is not waited for in vain."""

import asyncio

import pytest

from odradek.broker import controller_client
from odradek.broker.controller_client import ControllerClient
from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import BrokerClients
from odradek.protocol.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.errors import NotController, RequestTimedOut

ANSWER = AllocateProducerIdsResponse(
    throttle_time_ms=0, error_code=0, producer_id_start=5, producer_id_len=10
)
REQUEST = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)


class Scene:
    """Broker 1 asks; broker 2 is the controller, and does not answer while it is paused."""

    def __init__(self):
        self.controller_id = 2
        self.goes_on = asyncio.Event()
        self.is_asked = asyncio.Event()
        self.failure = None
        self.asked = []
        self.client = ControllerClient(
            Node(1, "", -1, None),
            controller_id=lambda: self.controller_id,
            nodes=lambda: {each: Node(each, "host", each, None) for each in (1, 2, 3)},
            clients=BrokerClients(lambda node: Answering(self, node)),
            broker_epoch=lambda: 1,
        )


class Answering:
    """A client of one broker."""

    def __init__(self, scene, node):
        self._scene = scene
        self._node = node

    async def send(self, request, *, version):
        scene = self._scene
        scene.asked.append(self._node.id)
        scene.is_asked.set()
        if self._node.id == 2:
            await scene.goes_on.wait()
        if scene.failure is not None:
            raise scene.failure
        return ANSWER

    def close(self):
        """Nothing is open."""


async def test_an_answer_is_waited_for_as_long_as_the_controller_is_in_office(monkeypatch):
    monkeypatch.setattr(controller_client, "LOOK_EVERY_S", 0.001)
    scene = Scene()
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        block = tasks.create_task(scene.client.allocate_producer_ids())
        await scene.is_asked.wait()
        await asyncio.sleep(0.01)
        scene.goes_on.set()
    assert block.result() == (5, 14)


async def test_one_that_is_paused_is_not_waited_for_once_another_is_in_office(monkeypatch):
    monkeypatch.setattr(controller_client, "LOOK_EVERY_S", 0.001)
    scene = Scene()
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(told(scene))
        await scene.is_asked.wait()
        scene.controller_id = 3
    assert isinstance(asking.result(), NotController)
    assert await scene.client.send(REQUEST, version=0) is ANSWER
    assert scene.asked == [2, 3]


async def told(scene):
    try:
        return await scene.client.send(REQUEST, version=0)
    except NotController as failure:
        return failure


@pytest.mark.parametrize("failure", [TimeoutError(), ConnectionResetError()])
async def test_one_that_cannot_be_reached_is_said_to_be_late(failure):
    scene = Scene()
    scene.failure = failure
    scene.goes_on.set()
    with pytest.raises(RequestTimedOut):
        await scene.client.send(REQUEST, version=0)


async def test_nobody_is_asked_where_nobody_is_known():
    scene = Scene()
    scene.controller_id = -1
    with pytest.raises(NotController):
        await scene.client.send(REQUEST, version=0)
    assert scene.asked == []
