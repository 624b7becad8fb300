"""Requests to the controller."""

import asyncio

import pytest

from odradek.broker.controller_client import ControllerClient
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.network.broker_clients import BrokerClients
from odradek.protocol.api.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.protocol.errors import NotController, RequestTimedOut

ITSELF, PAUSED, NEXT = (Node(number, "here", 9092 + number, None) for number in range(3))


class Broker:
    """Responds at once, or leaves a request unanswered until the connection is closed."""

    def __init__(self, node):
        self._response = asyncio.get_running_loop().create_future()
        if node is not PAUSED:
            block = AllocateProducerIdsResponse(
                throttle_time_ms=0,
                error_code=0,
                producer_id_start=1000 * node.id,
                producer_id_len=1000,
            )
            self._response.set_result(block)

    async def send(self, request, *, version):
        return await self._response

    def close(self):
        if not self._response.done():
            self._response.set_exception(ConnectionResetError())


class Scene:
    def __init__(self, holder):
        self.controller_id = holder
        nodes = {node.id: node for node in (ITSELF, PAUSED, NEXT)}
        self.client = ControllerClient(
            ITSELF,
            controller_id=lambda: self.controller_id,
            nodes=lambda: nodes,
            clients=BrokerClients(Broker),
            broker_epoch=lambda: 7,
        )


async def test_r5_request_to_paused_controller_fails_when_another_is_elected():
    scene = Scene(PAUSED.id)
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        failing = tasks.create_task(timeout_message(scene))
        await asyncio.sleep(0)
        scene.controller_id = NEXT.id
        scene.client.on_controller_change()
        assert "does not answer" in await failing
    assert (await scene.client.allocate_producer_ids()).block_start == 2000


async def timeout_message(scene):
    with pytest.raises(RequestTimedOut) as error:
        await scene.client.allocate_producer_ids()
    return str(error.value)


async def test_request_without_known_controller_is_rejected():
    with pytest.raises(NotController):
        await Scene(-1).client.allocate_producer_ids()
