"""Markers to one broker: markers that arrive during a request go into the next one."""

import asyncio

import pytest

from odradek.broker.loopback_client import LoopbackClient
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.network.broker_clients import BrokerClients
from odradek.broker.router import Route
from odradek.broker.task_registry import TaskRegistry
from odradek.broker.transactions import marker_channel
from odradek.broker.transactions.marker_channel import MarkerChannels
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import DecodeError
from odradek.protocol.types import TopicPartition
from tests.support.loops import at_end

Marker = WriteTxnMarkersRequest.Marker
MarkerResponse = WriteTxnMarkersResponse.Marker
NODE = Node(1, "here", 9092, None)


class Broker:
    """Responds when the test says so: with code 0 for all partitions, or with an error."""

    def __init__(self):
        self.requests = []
        self._may_respond = asyncio.Semaphore(0)
        self.error = None
        self.is_closed = False

    async def send(self, request, *, version):
        assert version == 1
        self.requests.append([marker.producer_id for marker in request.markers])
        await self._may_respond.acquire()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return WriteTxnMarkersResponse(markers=[marker_response(each) for each in request.markers])

    def respond(self, error=None):
        self.error = error
        self._may_respond.release()

    def close(self):
        self.is_closed = True


async def _wait_for(result):
    return await result


def marker_response(marker):
    topics = [
        MarkerResponse.Topic(
            name=topic.name,
            partitions=[
                MarkerResponse.Topic.Partition(partition_index=each, error_code=0)
                for each in topic.partition_indexes
            ],
        )
        for topic in marker.topics
    ]
    return MarkerResponse(producer_id=marker.producer_id, topics=topics)


def marker(producer_id, *partitions):
    return Marker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=True,
        topics=[Marker.Topic(name="events", partition_indexes=list(partitions))],
        coordinator_epoch=0,
    )


class Scene:
    """Marker channels to one broker."""

    def __init__(self):
        self.broker = Broker()
        self.tasks = []
        self._background = TaskRegistry()
        self.channels = MarkerChannels(BrokerClients(lambda node: self.broker), self._start)

    def _start(self, work, name):
        self.tasks.append(self._background.start(work, name))

    async def writing(self, producer_id, *partitions):
        result = self.channels.write(NODE, marker(producer_id, *partitions))
        task = self._background.start(_wait_for(result))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return task


def codes(*partitions):
    return {TopicPartition("events", each): 0 for each in partitions}


async def test_marker_is_sent_at_once_and_others_wait_for_the_response():
    scene = Scene()
    first = await scene.writing(1, 0)
    others = [await scene.writing(2, 0), await scene.writing(3, 0, 1)]
    assert scene.broker.requests == [[1]]
    scene.broker.respond()
    assert await first == codes(0)
    scene.broker.respond()
    assert await asyncio.gather(*others) == [codes(0), codes(0, 1)]
    assert scene.broker.requests == [[1], [2, 3]]
    await asyncio.gather(*scene.tasks)


@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError(), DecodeError("what")])
async def test_failed_request_marks_no_partition_and_the_next_is_sent(error):
    scene = Scene()
    first, second = await scene.writing(1, 0), await scene.writing(2, 0)
    scene.broker.respond(error)
    assert await first == {}
    scene.broker.respond()
    assert await second == codes(0)
    await asyncio.gather(*scene.tasks)


async def test_unexpected_error_completes_all_waiting_markers(caplog):
    scene = Scene()
    first, second = await scene.writing(1, 0), await scene.writing(2, 0)
    scene.broker.respond(RuntimeError("unexpected"))
    assert await asyncio.gather(first, second) == [{}, {}]
    third = await scene.writing(3, 0)
    scene.broker.respond()
    assert await third == codes(0)


async def test_channel_can_be_used_again_when_idle():
    scene = Scene()
    for producer_id in (1, 2):
        writing = await scene.writing(producer_id, 0)
        scene.broker.respond()
        assert await writing == codes(0)
        await asyncio.gather(*scene.tasks)


async def test_two_markers_of_one_producer_share_a_response():
    """Markers of one transaction; its coordinator was reelected during the first request."""
    scene = Scene()
    busy = await scene.writing(9, 0)
    both = [await scene.writing(1, 0), await scene.writing(1, 1)]
    scene.broker.respond()
    scene.broker.respond()
    assert await asyncio.gather(*both) == [codes(0, 1), codes(0, 1)]
    assert await busy == codes(0)
    await asyncio.gather(*scene.tasks)


async def test_request_has_at_most_the_maximum_number_of_markers(monkeypatch):
    monkeypatch.setattr(marker_channel, "MAX_MARKERS_PER_REQUEST", 2)
    scene = Scene()
    busy = await scene.writing(9, 0)
    others = [await scene.writing(each, 0) for each in range(3)]
    for _ in range(3):
        scene.broker.respond()
    await asyncio.gather(busy, *others, *scene.tasks)
    assert scene.broker.requests == [[9], [0, 1], [2]]


async def test_close_closes_the_connections():
    scene = Scene()
    writing = await scene.writing(1, 0)
    scene.broker.respond()
    await asyncio.gather(writing, *scene.tasks)
    scene.channels.close()
    assert scene.broker.is_closed


async def test_local_markers_are_written_synchronously():
    requests = []

    def handle(request):
        requests.append((request.version, [each.producer_id for each in request.body.markers]))
        return WriteTxnMarkersResponse(
            markers=[marker_response(each) for each in request.body.markers]
        )

    channels, client = local_channels(handle)
    assert channels.write(NODE, marker(7, 0, 1)) == codes(0, 1)
    assert requests == [(1, [7])]
    client.close()
    assert channels.write(NODE, marker(7, 0)) == {}


async def test_local_markers_wait_for_replication():
    replicated = asyncio.get_running_loop().create_future()

    async def handle(request):
        await replicated
        return WriteTxnMarkersResponse(
            markers=[marker_response(each) for each in request.body.markers]
        )

    channels, _ = local_channels(handle)
    result = channels.write(NODE, marker(7, 0))
    replicated.set_result(None)
    assert await result == codes(0)


def local_channels(handle):
    background = TaskRegistry()
    at_end(background.stop)
    key = ApiKey.WRITE_TXN_MARKERS
    client = LoopbackClient(
        lambda: {key: Route(key, handle)},
        client_id="1",
        listener="INSIDE",
        start_task=background.start,
    )
    return MarkerChannels(BrokerClients(lambda node: client), background.start), client
