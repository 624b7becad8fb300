"""Tests of controller/broker_link.py."""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from odradek.controller.broker_link import BrokerChannels, LinkWorld
from odradek.controller.context import Broker
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.errors import DecodeError
from tests.support.controller_scene import registration
from tests.support.simulated_brokers import SimulatedBrokers

VERSION = 8


def request(number):
    """Told apart by their controller's epoch."""
    return UpdateMetadataRequest(
        controller_id=0, controller_epoch=number, broker_epoch=100, live_brokers=[]
    )


def broker(number, epoch=100):
    return Broker(number, epoch, registration(number))


class Bench:
    """Channels to simulated brokers; time passes when somebody sleeps."""

    def __init__(self, tasks):
        self.brokers = SimulatedBrokers()
        self.answers = []
        self.sleeps = []
        self.closed = []
        world = LinkWorld(
            connect=self.connect,
            start_task=tasks.create_task,
            sleep=self.sleep,
            answered=self.answers.append,
        )
        self.channels = BrokerChannels(world)

    def connect(self, broker):
        link = self.brokers.connect(broker)
        link.close = lambda: self.closed.append((broker.id, broker.epoch))
        return link

    async def sleep(self, seconds):
        self.sleeps.append(seconds)
        await asyncio.sleep(0)

    def send(self, broker, *numbers):
        for number in numbers:
            self.channels.send(broker, request(number), version=VERSION)

    def answered(self, broker):
        return [each.request.controller_epoch for each in self.answers if each.broker == broker]

    def received(self, broker):
        return [each.controller_epoch for each in self.brokers[broker].requests]


@asynccontextmanager
async def bench():
    async with asyncio.TaskGroup() as tasks:
        it = Bench(tasks)
        try:
            yield it
        finally:
            it.channels.close()


async def turn():
    """Let everything happen that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_requests_are_answered_in_order():
    async with bench() as it:
        it.brokers.start(1, epoch=100)
        it.channels.add(broker(1))
        it.send(1, 1, 2)
        await turn()
        it.send(1, 3)
        await turn()
        assert it.received(1) == it.answered(1) == [1, 2, 3]
        assert {each.broker_epoch for each in it.answers} == {100}
        assert it.answers[0].response.error_code == 0
        assert it.channels.queued == 0


async def test_one_is_under_way_at_a_time():
    async with bench() as it:
        it.brokers.start(1, epoch=100)
        arrived, go_on = [], asyncio.Event()

        async def wait(broker, asked):
            arrived.append(asked.controller_epoch)
            await go_on.wait()

        it.brokers.on_the_way = wait
        it.channels.add(broker(1))
        it.send(1, 1, 2)
        await turn()
        assert arrived == [1]
        assert it.channels.queued == 2
        go_on.set()
        await turn()
        assert arrived == [1, 2]


async def test_a_slow_broker_keeps_no_other_waiting():
    async with bench() as it:
        go_on = asyncio.Event()

        async def wait(broker, asked):
            if broker == 1:
                await go_on.wait()

        it.brokers.on_the_way = wait
        for number in (1, 2):
            it.brokers.start(number, epoch=100)
            it.channels.add(broker(number))
            it.send(number, 1)
        await turn()
        assert (it.answered(1), it.answered(2)) == ([], [1])


@pytest.mark.parametrize("failure", [OSError("lost"), TimeoutError(), DecodeError("garbled")])
async def test_a_request_is_sent_until_it_is_answered(failure, caplog):
    caplog.set_level(logging.INFO)
    async with bench() as it:
        it.brokers.start(1, epoch=100)
        failures = [failure] * 3

        async def lose(broker, asked):
            if failures:
                raise failures.pop()

        it.brokers.on_the_way_back = lose
        it.channels.add(broker(1))
        it.send(1, 1, 2)
        await turn()
        assert it.received(1) == [1, 1, 1, 1, 2]
        assert it.answered(1) == [1, 2]
        assert it.sleeps == [0.1, 0.1, 0.1]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_nothing_is_sent_to_a_broker_that_is_not_there(caplog):
    async with bench() as it:
        it.brokers.start(1, epoch=100)
        it.send(1, 1)
        await turn()
        assert it.received(1) == []
    assert "Broker 1 is not there" in caplog.text


async def test_a_broker_that_has_gone_is_not_sent_to_any_more():
    async with bench() as it:
        it.channels.add(broker(1))
        it.send(1, 1)
        await turn()
        assert it.sleeps
        it.channels.remove(1)
        it.channels.remove(1)
        slept = len(it.sleeps)
        it.brokers.start(1, epoch=100)
        await turn()
        assert it.received(1) == []
        assert len(it.sleeps) == slept
        assert it.closed == [(1, 100)]
        assert 1 not in it.channels


async def test_no_answer_comes_from_a_broker_that_has_gone():
    async with bench() as it:
        it.brokers.start(1, epoch=100)

        async def go(broker, asked):
            it.channels.remove(broker)

        it.brokers.on_the_way_back = go
        it.channels.add(broker(1))
        it.send(1, 1)
        await turn()
        assert it.received(1) == [1]
        assert it.answers == []


async def test_a_broker_in_a_new_epoch_begins_with_an_empty_queue():
    async with bench() as it:
        it.channels.add(broker(1))
        it.send(1, 1, 2)
        await turn()
        it.brokers.start(1, epoch=200)
        it.channels.add(broker(1, epoch=200))
        it.send(1, 3)
        await turn()
        assert it.received(1) == [3]
        assert [each.broker_epoch for each in it.answers] == [200]
        assert it.closed == [(1, 100)]


async def test_a_broker_that_is_there_already_stays_as_it_is():
    async with bench() as it:
        it.brokers.start(1, epoch=100)
        it.channels.add(broker(1))
        it.send(1, 1)
        it.channels.add(broker(1))
        await turn()
        assert it.answered(1) == [1]
        assert it.closed == []
        assert 1 in it.channels
