"""Delayed requests hold no memory and no queue slot, and end with their connection.

The tests use the broker's handlers and real connections, with one processor on the core loop and
with two on threads.
"""

import asyncio
from functools import partial

import pytest

from odradek.broker.handlers import fetch, produce
from odradek.broker.network.purgatory import DelayedOperationPurgatory
from odradek.broker.request import DelayedFuture, DelayedOperation, RequestContext
from odradek.broker.router import Route, Router
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.header import request_frame
from tests.support.asked_coordinator import NOBODY_ASKED
from tests.support.fetches import FetchBench, append, asked, request
from tests.support.hosted_partitions import BROKER
from tests.support.logs import NOW_MS, records_batch
from tests.support.network_scene import Client, Held, serving, until
from tests.support.scripted_connection import framed

FOLLOWER = 2
MAX_WAIT_MS = ENOUGH_BYTES = 2**31 - 1
LONG_POLL = request(
    asked(), max_wait_ms=MAX_WAIT_MS, min_bytes=ENOUGH_BYTES, max_bytes=ENOUGH_BYTES
)

both = pytest.mark.parametrize("threads", [1, 2])


def build_router(bench):
    hosting = bench.hosting
    dependencies = (hosting.replicas, bench.cluster, bench.sessions, bench.policy)
    handle_fetch = partial(fetch.handle, *dependencies)
    handle_produce = partial(
        produce.handle,
        hosting.replicas,
        hosting.known,
        hosting.reader,
        NOBODY_ASKED,
        lambda: NOW_MS,
    )
    return Router(
        {
            ApiKey.FETCH: Route(ApiKey.FETCH, handle_fetch, fetch.error_response),
            ApiKey.PRODUCE: Route(ApiKey.PRODUCE, handle_produce, produce.error_response),
        }
    )


def encode_request(key, version, message):
    return b"".join(request_frame(key, version, 1, "a test", message))


def delaying_handler(held, **options):
    return lambda frame, context: DelayedOperation(partial(held, frame, context), **options)


def processors_in(server):
    processors = [processor for group in server._processors.values() for processor in group]
    return [getattr(processor, "_processor", processor) for processor in processors]


def memory_pools_of(server):
    return [processor._services.memory_pool for processor in processors_in(server)]


def closed_in_progress(server):
    return [processor._closed_in_progress for processor in processors_in(server)]


@both
async def test_reset_long_polls_leave_nothing_behind(tmp_path, threads):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    server = await serving(build_router(bench), num_network_threads=threads)
    tasks = len(asyncio.all_tasks())
    for _ in range(5):
        clients = [await Client.connect(server) for _ in range(20)]
        for client in clients:
            await client.send(encode_request(ApiKey.FETCH, 7, LONG_POLL))
        await until(lambda: len(partition.fetch_watchers) == 20)
        for client in clients:
            client.reset()
        await until(lambda: not partition.fetch_watchers)
    await until(lambda: len(server._purgatory) == 0)
    await until(lambda: len(asyncio.all_tasks()) == tasks)
    await until(lambda: not any(closed_in_progress(server)))
    append(partition)


@both
async def test_produce_that_waits_for_replicas_holds_no_memory(tmp_path, threads):
    bench = FetchBench(tmp_path)
    partition = bench.lead(replicas=(BROKER, FOLLOWER))
    server = await serving(
        build_router(bench), num_network_threads=threads, queued_max_request_bytes=threads
    )
    entry = ProduceRequest.Topic.Partition(index=0, records=records_batch(bytes(200_000)))
    topics = [ProduceRequest.Topic(name="events", partition_data=[entry])]
    produce_request = ProduceRequest(acks=-1, timeout_ms=MAX_WAIT_MS, topic_data=topics)
    clients = [await Client.connect(server) for _ in range(6)]
    for client in clients:
        # While any bytes are counted, nothing more is read.
        await client.send(encode_request(ApiKey.PRODUCE, 7, produce_request))
    await until(lambda: partition.log.log_end_offset == 6)
    await until(lambda: not any(memory.used_bytes for memory in memory_pools_of(server)))
    assert len(server._purgatory) == 6
    partition.update_follower_fetch_state(FOLLOWER, fetch_offset=6, follower_start_offset=0)
    for client in clients:
        assert await client.receive()


class FutureHandler:
    """Responds when the futures have results."""

    def __init__(self):
        self.futures = []

    def __call__(self, frame, context):
        self.futures.append(asyncio.get_running_loop().create_future())
        return DelayedFuture(self.futures[-1], lambda text: [framed(text)])


@both
async def test_delayed_future_is_completed_without_a_task(threads):
    handler = FutureHandler()
    server = await serving(handler, num_network_threads=threads)
    clients = [await Client.connect(server) for _ in range(5)]
    for count, client in enumerate(clients, start=1):
        await client.send(framed(b"ask"))
        await until(lambda count=count: len(handler.futures) == count)
    assert len(server._purgatory) == 5
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in names if name.startswith("request from")]
    for number, future in enumerate(handler.futures):
        future.set_result(b"%d" % number)
    assert [await client.receive() for client in clients] == [b"%d" % number for number in range(5)]
    assert len(server._purgatory) == 0
    await clients[0].send(framed(b"again"))
    await until(lambda: len(handler.futures) == 6)
    handler.futures[5].set_result(b"more")
    assert await clients[0].receive() == b"more"


@both
async def test_delayed_future_of_a_closed_connection_is_cancelled(threads):
    handler = FutureHandler()
    server = await serving(handler, num_network_threads=threads)
    client = await Client.connect(server)
    await client.send(framed(b"ask"))
    await until(lambda: handler.futures)
    client.reset()
    await until(lambda: len(server) == 0 and len(server._purgatory) == 0)
    assert handler.futures[0].cancelled()
    await until(lambda: not any(closed_in_progress(server)))


async def test_delayed_future_is_cancelled_if_the_connection_closed_before():
    future, delivered = asyncio.get_running_loop().create_future(), []
    closed = RequestContext("1", "host", "PLAINTEXT", is_closed=True)
    purgatory = DelayedOperationPurgatory(lambda *_: 1 / 0)
    purgatory.watch(DelayedFuture(future, bytes), closed, delivered.append)
    assert (future.cancelled(), delivered, len(purgatory)) == (True, [None], 0)


@both
async def test_delayed_future_that_fails_closes_its_connection_only(threads):
    def handle(frame, context):
        future = asyncio.get_running_loop().create_future()
        future.set_result(b"no number" if bytes(frame) == b"odd" else b"7")
        return DelayedFuture(future, lambda text: [framed(b"%d" % int(text))])

    server = await serving(handle, num_network_threads=threads)
    odd, other = [await Client.connect(server) for _ in range(2)]
    await odd.send(framed(b"odd"))
    await other.send(framed(b"even"))
    assert await other.receive() == b"7"
    await until(lambda: len(server) == 1)


@both
async def test_request_in_progress_continues_without_its_connection_and_is_counted(threads):
    held = Held()
    server = await serving(held, num_network_threads=threads)
    client = await Client.connect(server)
    await client.send(framed(b"12345"))
    await held.wait_for(1)
    client.reset()
    await until(lambda: len(server) == 0)
    assert not held.asked[0].done()
    assert sum(memory.used_bytes for memory in memory_pools_of(server)) == 9
    assert sum(memory.requests_in_progress for memory in memory_pools_of(server)) == 1
    held.answer()
    await until(lambda: not any(memory.used_bytes for memory in memory_pools_of(server)))
    assert not any(memory.requests_in_progress for memory in memory_pools_of(server))


@both
async def test_operation_delayed_after_the_connection_closed_is_not_started(threads):
    held, delayed = Held(), Held()

    async def work_and_delay(frame, context):
        await held(frame, context)
        return DelayedOperation(partial(delayed, frame, context))

    server = await serving(work_and_delay, num_network_threads=threads)
    client = await Client.connect(server)
    await client.send(framed(b"x"))
    await held.wait_for(1)
    client.reset()
    await until(lambda: len(server) == 0)
    held.answer()
    await until(lambda: len(server._purgatory) == 0)
    assert delayed.asked == []


@both
async def test_requests_in_progress_are_limited_by_queued_max_requests(threads):
    held = Held()
    server = await serving(held, num_network_threads=threads, queued_max_requests=2)
    clients = [await Client.connect(server) for _ in range(6)]
    for client in clients:
        await client.send(framed(b"x"))
    for number in range(6):
        await held.wait_for(number + 1)
        assert len(held.asked) - number <= 2
        held.answer(number)
    assert [await client.receive() for client in clients] == [b"held"] * 6


@both
async def test_any_number_of_requests_may_be_delayed(threads):
    held = Held()
    server = await serving(
        delaying_handler(held), num_network_threads=threads, queued_max_requests=1
    )
    clients = [await Client.connect(server) for _ in range(6)]
    for client in clients:
        await client.send(framed(b"x") * 2)
    await held.wait_for(6)
    for number in range(12):
        await held.wait_for(number + 1)
        held.answer(number)
    for client in clients:
        assert [await client.receive() for _ in range(2)] == [b"held"] * 2


@both
async def test_stop_does_not_wait_for_delayed_requests(threads, caplog):
    held, delayed = Held(), Held()

    async def work_and_delay(frame, context):
        await held(frame, context)
        return DelayedOperation(partial(delayed, frame, context))

    server = await serving(
        lambda frame, context: (
            work_and_delay(frame, context)
            if frame == b"delete"
            else delaying_handler(delayed)(frame, context)
        ),
        num_network_threads=threads,
    )
    polling, deleting = await Client.connect(server), await Client.connect(server)
    await polling.send(framed(b"fetch"))
    await deleting.send(framed(b"delete"))
    await held.wait_for(1)
    await delayed.wait_for(1)
    stopping = asyncio.gather(server.stop(timeout_s=30), return_exceptions=True)
    assert await polling.is_ended()
    assert not stopping.done()
    held.answer()
    assert await deleting.is_ended()
    assert await stopping == [None]
    assert caplog.records == []


@both
async def test_stop_waits_for_requests_that_complete_on_shutdown(threads):
    held = Held()
    server = await serving(
        delaying_handler(held, completes_on_shutdown=True), num_network_threads=threads
    )
    client = await Client.connect(server)
    await client.send(framed(b"produce"))
    await held.wait_for(1)
    stopping = asyncio.gather(server.stop(timeout_s=30), return_exceptions=True)
    for _ in range(5):
        await asyncio.sleep(0)
    held.answer()
    assert await client.receive() == b"held"
    assert await stopping == [None]


@both
async def test_client_that_ended_its_output_is_closed_after_the_idle_time(threads):
    held = Held()
    server = await serving(
        delaying_handler(held), num_network_threads=threads, connections_max_idle_ms=0
    )
    client = await Client.connect(server)
    await client.send(framed(b"fetch"))
    await held.wait_for(1)
    client.end_input()
    await until(lambda: len(server) == 0)
    await until(lambda: held.asked[0].cancelled())
