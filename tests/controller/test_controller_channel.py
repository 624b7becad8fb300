"""Tests of controller/controller_channel.py."""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from odradek.controller.controller_channel import ChannelEnvironment, ControllerChannelManager
from odradek.controller.controller_context import Broker
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.errors import DecodeError
from tests.support.controller_scene import registration
from tests.support.simulated_brokers import SimulatedBrokers

VERSION = 8


def request(number):
    """The controller epoch identifies the request."""
    return UpdateMetadataRequest(
        controller_id=0, controller_epoch=number, broker_epoch=100, live_brokers=[]
    )


def broker(number, epoch=100):
    return Broker(number, epoch, registration(number))


class ChannelHarness:
    """Channels to simulated brokers. A sleep returns at once."""

    def __init__(self, tasks):
        self.brokers = SimulatedBrokers()
        self.responses = []
        self.sleeps = []
        self.closed = []
        environment = ChannelEnvironment(
            connect=self.connect,
            start_task=tasks.create_task,
            sleep=self.sleep,
            on_response=self.responses.append,
        )
        self.channels = ControllerChannelManager(environment)

    def connect(self, broker):
        connection = self.brokers.connect(broker)
        connection.close = lambda: self.closed.append((broker.id, broker.epoch))
        return connection

    async def sleep(self, seconds):
        self.sleeps.append(seconds)
        await asyncio.sleep(0)

    def send(self, broker_id, *numbers):
        for number in numbers:
            self.channels.send(broker_id, request(number), version=VERSION)

    def responses_from(self, broker):
        return [
            response.request.controller_epoch
            for response in self.responses
            if response.broker_id == broker
        ]

    def received(self, broker):
        return [request.controller_epoch for request in self.brokers[broker].requests]


@asynccontextmanager
async def channel_harness():
    async with asyncio.TaskGroup() as tasks:
        harness = ChannelHarness(tasks)
        try:
            yield harness
        finally:
            harness.channels.close()


async def run_ready_tasks():
    """Run the event loop until every ready task has run."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_requests_to_a_broker_are_sent_in_order():
    async with channel_harness() as harness:
        harness.brokers.start(1, epoch=100)
        harness.channels.add_broker(broker(1))
        harness.send(1, 1, 2)
        await run_ready_tasks()
        harness.send(1, 3)
        await run_ready_tasks()
        assert harness.received(1) == harness.responses_from(1) == [1, 2, 3]
        assert {response.broker_epoch for response in harness.responses} == {100}
        assert harness.responses[0].response.error_code == 0
        assert harness.channels.queue_size == 0


async def test_one_request_per_broker_is_in_flight():
    async with channel_harness() as harness:
        harness.brokers.start(1, epoch=100)
        arrived, may_continue = [], asyncio.Event()

        async def wait(broker, request):
            arrived.append(request.controller_epoch)
            await may_continue.wait()

        harness.brokers.on_the_way = wait
        harness.channels.add_broker(broker(1))
        harness.send(1, 1, 2)
        await run_ready_tasks()
        assert arrived == [1]
        assert harness.channels.queue_size == 2
        may_continue.set()
        await run_ready_tasks()
        assert arrived == [1, 2]


async def test_slow_broker_does_not_delay_other_brokers():
    async with channel_harness() as harness:
        may_continue = asyncio.Event()

        async def wait(broker, request):
            if broker == 1:
                await may_continue.wait()

        harness.brokers.on_the_way = wait
        for number in (1, 2):
            harness.brokers.start(number, epoch=100)
            harness.channels.add_broker(broker(number))
            harness.send(number, 1)
        await run_ready_tasks()
        assert (harness.responses_from(1), harness.responses_from(2)) == ([], [1])


@pytest.mark.parametrize("failure", [OSError("lost"), TimeoutError(), DecodeError("garbled")])
async def test_failed_request_is_retried_until_a_response_arrives(failure, caplog):
    caplog.set_level(logging.INFO)
    async with channel_harness() as harness:
        harness.brokers.start(1, epoch=100)
        failures = [failure] * 3

        async def lose_response(broker, request):
            if failures:
                raise failures.pop()

        harness.brokers.on_the_way_back = lose_response
        harness.channels.add_broker(broker(1))
        harness.send(1, 1, 2)
        await run_ready_tasks()
        assert harness.received(1) == [1, 1, 1, 1, 2]
        assert harness.responses_from(1) == [1, 2]
        assert harness.sleeps == [0.1, 0.1, 0.1]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_request_to_unknown_broker_is_dropped(caplog):
    async with channel_harness() as harness:
        harness.brokers.start(1, epoch=100)
        harness.send(1, 1)
        await run_ready_tasks()
        assert harness.received(1) == []
    assert "Not sending request to broker 1, since it is offline" in caplog.text


async def test_removed_broker_receives_no_more_requests():
    async with channel_harness() as harness:
        harness.channels.add_broker(broker(1))
        harness.send(1, 1)
        await run_ready_tasks()
        assert harness.sleeps
        harness.channels.remove_broker(1)
        harness.channels.remove_broker(1)
        sleep_count = len(harness.sleeps)
        harness.brokers.start(1, epoch=100)
        await run_ready_tasks()
        assert harness.received(1) == []
        assert len(harness.sleeps) == sleep_count
        assert harness.closed == [(1, 100)]
        assert 1 not in harness.channels


async def test_response_of_removed_broker_is_dropped():
    async with channel_harness() as harness:
        harness.brokers.start(1, epoch=100)

        async def remove_broker(broker, request):
            harness.channels.remove_broker(broker)

        harness.brokers.on_the_way_back = remove_broker
        harness.channels.add_broker(broker(1))
        harness.send(1, 1)
        await run_ready_tasks()
        assert harness.received(1) == [1]
        assert harness.responses == []


async def test_broker_with_new_epoch_starts_with_an_empty_queue():
    async with channel_harness() as harness:
        harness.channels.add_broker(broker(1))
        harness.send(1, 1, 2)
        await run_ready_tasks()
        harness.brokers.start(1, epoch=200)
        harness.channels.add_broker(broker(1, epoch=200))
        harness.send(1, 3)
        await run_ready_tasks()
        assert harness.received(1) == [3]
        assert [response.broker_epoch for response in harness.responses] == [200]
        assert harness.closed == [(1, 100)]


async def test_adding_a_known_broker_again_keeps_its_channel():
    async with channel_harness() as harness:
        harness.brokers.start(1, epoch=100)
        harness.channels.add_broker(broker(1))
        harness.send(1, 1)
        harness.channels.add_broker(broker(1))
        await run_ready_tasks()
        assert harness.responses_from(1) == [1]
        assert harness.closed == []
        assert 1 in harness.channels
