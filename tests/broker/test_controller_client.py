"""Asking the controller, whichever broker that is."""

import asyncio

import pytest

from odradek.broker.controller_client import ControllerClient
from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import BrokerClients
from odradek.protocol.api.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.protocol.errors import NotController, RequestTimedOut

ITSELF, PAUSED, NEXT = (Node(number, "here", 9092 + number, None) for number in range(3))


class Broker:
    """Answers, or says nothing until it is hung up on."""

    def __init__(self, node):
        self._answer = asyncio.get_running_loop().create_future()
        if node is not PAUSED:
            block = AllocateProducerIdsResponse(
                throttle_time_ms=0,
                error_code=0,
                producer_id_start=1000 * node.id,
                producer_id_len=1000,
            )
            self._answer.set_result(block)

    async def send(self, request, *, version):
        return await self._answer

    def close(self):
        if not self._answer.done():
            self._answer.set_exception(ConnectionResetError())


class Office:
    def __init__(self, holder):
        self.holder = holder
        nodes = {each.id: each for each in (ITSELF, PAUSED, NEXT)}
        self.client = ControllerClient(
            ITSELF,
            controller_id=lambda: self.holder,
            nodes=lambda: nodes,
            clients=BrokerClients(Broker),
            broker_epoch=lambda: 7,
        )


async def test_r5_who_waits_for_a_controller_that_stands_still_asks_the_next_one():
    office = Office(PAUSED.id)
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(refused(office))
        await asyncio.sleep(0)
        office.holder = NEXT.id
        office.client.controller_changed()
        assert "does not answer" in await asking
    assert (await office.client.allocate_producer_ids()).block_start == 2000


async def refused(office):
    with pytest.raises(RequestTimedOut) as refusal:
        await office.client.allocate_producer_ids()
    return str(refusal.value)


async def test_nobody_is_asked_if_nobody_is_known():
    with pytest.raises(NotController):
        await Office(-1).client.allocate_producer_ids()
