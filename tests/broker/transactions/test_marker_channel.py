"""Markers to one broker: those that come while a request is under way go with the next."""

import asyncio

import pytest

from odradek.broker.background import Background
from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import BrokerClients
from odradek.broker.own_client import OwnClient
from odradek.broker.router import Route
from odradek.broker.transactions import marker_link
from odradek.broker.transactions.marker_link import MarkerLinks
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import DecodeError
from odradek.protocol.types import TopicPartition
from tests.support.loops import at_end

Marker = WriteTxnMarkersRequest.Marker
Answered = WriteTxnMarkersResponse.Marker
NODE = Node(1, "here", 9092, None)


class Broker:
    """Answers when the test says so: with code 0 for all, or a failure."""

    def __init__(self):
        self.requests = []
        self._let_go = asyncio.Semaphore(0)
        self.failure = None
        self.is_closed = False

    async def send(self, request, *, version):
        assert version == 1
        self.requests.append([marker.producer_id for marker in request.markers])
        await self._let_go.acquire()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return WriteTxnMarkersResponse(markers=[answered(each) for each in request.markers])

    def answers(self, failure=None):
        self.failure = failure
        self._let_go.release()

    def close(self):
        self.is_closed = True


async def _awaited(written):
    return await written


def answered(marker):
    topics = [
        Answered.Topic(
            name=topic.name,
            partitions=[
                Answered.Topic.Partition(partition_index=each, error_code=0)
                for each in topic.partition_indexes
            ],
        )
        for topic in marker.topics
    ]
    return Answered(producer_id=marker.producer_id, topics=topics)


def marker(producer_id, *partitions):
    return Marker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=True,
        topics=[Marker.Topic(name="events", partition_indexes=list(partitions))],
        coordinator_epoch=0,
    )


class Scene:
    """Links to one broker."""

    def __init__(self):
        self.broker = Broker()
        self.tasks = []
        self._background = Background()
        self.links = MarkerLinks(BrokerClients(lambda node: self.broker), self._start)

    def _start(self, work, name):
        self.tasks.append(self._background.start(work, name))

    async def writing(self, producer_id, *partitions):
        written = self.links.write(NODE, marker(producer_id, *partitions))
        task = self._background.start(_awaited(written))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return task


def codes(*partitions):
    return {TopicPartition("events", each): 0 for each in partitions}


async def test_a_marker_goes_at_once_and_others_wait_for_its_answer():
    scene = Scene()
    first = await scene.writing(1, 0)
    others = [await scene.writing(2, 0), await scene.writing(3, 0, 1)]
    assert scene.broker.requests == [[1]]
    scene.broker.answers()
    assert await first == codes(0)
    scene.broker.answers()
    assert await asyncio.gather(*others) == [codes(0), codes(0, 1)]
    assert scene.broker.requests == [[1], [2, 3]]
    await asyncio.gather(*scene.tasks)


@pytest.mark.parametrize("failure", [ConnectionResetError(), TimeoutError(), DecodeError("what")])
async def test_who_is_not_answered_is_told_of_no_partition_and_the_rest_is_sent(failure):
    scene = Scene()
    first, second = await scene.writing(1, 0), await scene.writing(2, 0)
    scene.broker.answers(failure)
    assert await first == {}
    scene.broker.answers()
    assert await second == codes(0)
    await asyncio.gather(*scene.tasks)


async def test_nobody_waits_for_ever_whatever_happens(caplog):
    scene = Scene()
    first, second = await scene.writing(1, 0), await scene.writing(2, 0)
    scene.broker.answers(RuntimeError("what nobody thought of"))
    assert await asyncio.gather(first, second) == [{}, {}]
    third = await scene.writing(3, 0)
    scene.broker.answers()
    assert await third == codes(0)


async def test_it_begins_again_when_it_has_ended():
    scene = Scene()
    for producer_id in (1, 2):
        writing = await scene.writing(producer_id, 0)
        scene.broker.answers()
        assert await writing == codes(0)
        await asyncio.gather(*scene.tasks)


async def test_two_markers_of_one_producer_are_answered_together():
    """Of one transaction, from a coordinator that has come back while the first was under way."""
    scene = Scene()
    busy = await scene.writing(9, 0)
    both = [await scene.writing(1, 0), await scene.writing(1, 1)]
    scene.broker.answers()
    scene.broker.answers()
    assert await asyncio.gather(*both) == [codes(0, 1), codes(0, 1)]
    assert await busy == codes(0)
    await asyncio.gather(*scene.tasks)


async def test_a_request_has_so_many_at_most(monkeypatch):
    monkeypatch.setattr(marker_link, "MARKERS_MAX", 2)
    scene = Scene()
    busy = await scene.writing(9, 0)
    others = [await scene.writing(each, 0) for each in range(3)]
    for _ in range(3):
        scene.broker.answers()
    await asyncio.gather(busy, *others, *scene.tasks)
    assert scene.broker.requests == [[9], [0, 1], [2]]


async def test_closing_closes_the_connections():
    scene = Scene()
    writing = await scene.writing(1, 0)
    scene.broker.answers()
    await asyncio.gather(writing, *scene.tasks)
    scene.links.close()
    assert scene.broker.is_closed


async def test_what_this_broker_leads_itself_is_written_in_the_same_call():
    asked = []

    def handle(call):
        asked.append((call.version, [each.producer_id for each in call.request.markers]))
        return WriteTxnMarkersResponse(markers=[answered(each) for each in call.request.markers])

    links, client = here(handle)
    assert links.write(NODE, marker(7, 0, 1)) == codes(0, 1)
    assert asked == [(1, [7])]
    client.close()
    assert links.write(NODE, marker(7, 0)) == {}


async def test_it_waits_for_replicas_of_its_own_too():
    replicated = asyncio.get_running_loop().create_future()

    async def handle(call):
        await replicated
        return WriteTxnMarkersResponse(markers=[answered(each) for each in call.request.markers])

    links, _ = here(handle)
    written = links.write(NODE, marker(7, 0))
    replicated.set_result(None)
    assert await written == codes(0)


def here(handle):
    background = Background()
    at_end(background.stop)
    key = ApiKey.WRITE_TXN_MARKERS
    client = OwnClient(
        lambda: {key: Route(key, handle)},
        client_id="1",
        listener="INSIDE",
        start=background.start,
    )
    return MarkerLinks(BrokerClients(lambda node: client), background.start), client
