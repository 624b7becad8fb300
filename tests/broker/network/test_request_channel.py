"""The queue of requests between threads: bound, order and wake-ups. One thread plays all roles."""

import asyncio
from collections import deque

import pytest

from odradek.broker.logging_setup import TRACE
from odradek.broker.network.connection_services import EnqueueResult
from odradek.broker.network.request_channel import REQUESTS_PER_WAKEUP, RequestChannel
from odradek.broker.request import RequestContext


class Loop:
    """An event loop that runs one callback when a test says so."""

    def __init__(self):
        self.ready = deque()

    def call_soon_threadsafe(self, callback, *arguments):
        self.ready.append((callback, arguments))

    def run_once(self):
        callback, arguments = self.ready.popleft()
        callback(*arguments)


class FakeProcessor:
    def __init__(self):
        self.delivered = []
        self.resumed = []

    def enqueue_response(self, connection_id, outcome):
        self.delivered.append((connection_id, outcome))

    def enqueue_resume(self, connection_id):
        self.resumed.append(connection_id)


def context(number):
    return RequestContext(str(number), "host", "PLAINTEXT")


def channel(loop, handler=lambda frame, context: [frame], requests_max=500):
    return RequestChannel(handler, purgatory=None, loop=loop, requests_max=requests_max)


def test_requests_are_handled_in_order():
    loop, processor = Loop(), FakeProcessor()
    requests = channel(loop)
    for number in range(3):
        assert (
            requests.enqueue(processor, b"%d" % number, context(number)) is EnqueueResult.ENQUEUED
        )
    assert len(loop.ready) == 1
    loop.run_once()
    assert processor.delivered == [("0", [b"0"]), ("1", [b"1"]), ("2", [b"2"])]


@pytest.mark.parametrize("is_logged", [True, False])
def test_queue_time_begins_at_the_queue_if_requests_are_logged(is_logged, caplog):
    caplog.set_level(TRACE if is_logged else TRACE + 1, "kafka.request.logger")
    request_context = context(0)
    channel(Loop()).enqueue(FakeProcessor(), b"x", request_context)
    assert bool(request_context.queued_at) is is_logged


def test_connections_beyond_the_bound_wait_and_resume_in_order():
    loop, processor = Loop(), FakeProcessor()
    requests = channel(loop, requests_max=2)
    results = [requests.enqueue(processor, b"x", context(number)) for number in range(5)]
    assert results == [EnqueueResult.ENQUEUED] * 2 + [EnqueueResult.QUEUE_FULL] * 3
    loop.run_once()
    assert processor.resumed == ["2", "3"]
    assert [requests.enqueue(processor, b"x", context(number)) for number in (2, 3)] == results[:2]
    loop.run_once()
    assert processor.resumed == ["2", "3", "4"]


def test_connection_blocked_just_after_the_queue_was_emptied_is_resumed():
    loop, processor = Loop(), FakeProcessor()
    requests = channel(loop, requests_max=1)

    class LateDeque(deque):
        def append(self, connection):
            loop.run_once()
            super().append(connection)

    requests._blocked_connections = LateDeque()
    requests.enqueue(processor, b"x", context(0))
    assert requests.enqueue(processor, b"x", context(1)) is EnqueueResult.QUEUE_FULL
    assert processor.resumed == []
    loop.run_once()
    assert processor.resumed == ["1"]


def test_control_plane_waits_for_one_batch_of_other_requests_only():
    loop, processor = Loop(), FakeProcessor()
    order = []
    data = channel(loop, lambda frame, context: order.append("data"))
    control = channel(loop, lambda frame, context: order.append("control"), requests_max=20)
    for number in range(400):
        data.enqueue(processor, b"x", context(number))
    control.enqueue(processor, b"x", context(400))
    while loop.ready:
        loop.run_once()
    assert order.index("control") == REQUESTS_PER_WAKEUP
    assert len(order) == 401


def test_closed_channel_drops_its_requests():
    loop, processor = Loop(), FakeProcessor()
    requests = channel(loop, requests_max=1)
    for number in range(2):
        requests.enqueue(processor, b"x", context(number))
    requests.close()
    loop.run_once()
    assert (processor.delivered, processor.resumed) == ([], [])


async def test_delayed_requests_take_no_slot_in_the_queue():
    waiting = []

    class FakePurgatory:
        def watch(self, operation, context, deliver):
            waiting.append(operation)

    loop, processor = Loop(), FakeProcessor()
    futures = [asyncio.get_running_loop().create_future() for _ in range(10)]
    requests = RequestChannel(
        lambda frame, context: futures[int(context.connection_id)],
        purgatory=FakePurgatory(),
        loop=loop,
        requests_max=1,
    )
    for number in range(10):
        assert requests.enqueue(processor, b"x", context(number)) is EnqueueResult.ENQUEUED
        loop.run_once()
    assert waiting == futures
