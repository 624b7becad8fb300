"""Requests that only wait cost nothing but their waiting, and no longer than anybody is there.

With the handlers of the broker, by real connections, with one processor on the core loop and with
two on threads.
"""

import asyncio
from functools import partial

import pytest

from odradek.broker.call import Parked, Peer, Promised
from odradek.broker.handlers import fetch, produce
from odradek.broker.network.pending_answers import PendingAnswers
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

OTHER = 2
EVER_MS = ENOUGH_BYTES = 2**31 - 1
LONG_POLL = request(asked(), max_wait_ms=EVER_MS, min_bytes=ENOUGH_BYTES, max_bytes=ENOUGH_BYTES)

both = pytest.mark.parametrize("threads", [1, 2])


def router_of(bench):
    hosting = bench.hosting
    needed = (hosting.replicas, bench.cluster, bench.sessions, bench.policy)
    fetching = partial(fetch.handle, *needed)
    producing = partial(
        produce.handle,
        hosting.replicas,
        hosting.known,
        hosting.reader,
        NOBODY_ASKED,
        lambda: NOW_MS,
    )
    return Router(
        {
            ApiKey.FETCH: Route(ApiKey.FETCH, fetching, fetch.refused),
            ApiKey.PRODUCE: Route(ApiKey.PRODUCE, producing, produce.refused),
        }
    )


def sent(key, version, message):
    return b"".join(request_frame(key, version, 1, "a test", message))


def parked_in(held, **how):
    return lambda frame, peer: Parked(partial(held, frame, peer), **how)


def processors_of(server):
    processors = [each for several in server._processors.values() for each in several]
    return [getattr(each, "_processor", each) for each in processors]


def memories_of(server):
    return [each._around.memory for each in processors_of(server)]


def unsettled_in(server):
    return [each._unsettled for each in processors_of(server)]


@both
async def test_long_polls_that_were_cut_leave_nothing_behind(tmp_path, threads):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    server = await serving(router_of(bench), num_network_threads=threads)
    tasks = len(asyncio.all_tasks())
    for _ in range(5):
        clients = [await Client.connect(server) for _ in range(20)]
        for client in clients:
            await client.send(sent(ApiKey.FETCH, 7, LONG_POLL))
        await until(lambda: len(partition.waiting) == 20)
        for client in clients:
            client.reset()
        await until(lambda: not partition.waiting)
    await until(lambda: len(server._pending) == 0)
    await until(lambda: len(asyncio.all_tasks()) == tasks)
    await until(lambda: not any(unsettled_in(server)))
    append(partition)


@both
async def test_a_produce_that_waits_for_replicas_keeps_no_bytes(tmp_path, threads):
    bench = FetchBench(tmp_path)
    partition = bench.lead(replicas=(BROKER, OTHER))
    server = await serving(
        router_of(bench), num_network_threads=threads, queued_max_request_bytes=threads
    )
    entry = ProduceRequest.Topic.Partition(index=0, records=records_batch(bytes(200_000)))
    topics = [ProduceRequest.Topic(name="events", partition_data=[entry])]
    asking = ProduceRequest(acks=-1, timeout_ms=EVER_MS, topic_data=topics)
    clients = [await Client.connect(server) for _ in range(6)]
    for client in clients:
        # While any bytes are counted, the bound lets nothing more be read.
        await client.send(sent(ApiKey.PRODUCE, 7, asking))
    await until(lambda: partition.log.end_offset == 6)
    await until(lambda: not any(memory.used_bytes for memory in memories_of(server)))
    assert len(server._pending) == 6
    partition.follower_fetched(OTHER, offset=6, start_offset=0)
    for client in clients:
        assert await client.receive()


class Promising:
    """Answers with what its futures bring."""

    def __init__(self):
        self.futures = []

    def __call__(self, frame, peer):
        self.futures.append(asyncio.get_running_loop().create_future())
        return Promised(self.futures[-1], lambda text: [framed(text)])


@both
async def test_what_is_promised_is_answered_without_a_task(threads):
    promising = Promising()
    server = await serving(promising, num_network_threads=threads)
    clients = [await Client.connect(server) for _ in range(5)]
    for count, client in enumerate(clients, start=1):
        await client.send(framed(b"ask"))
        await until(lambda count=count: len(promising.futures) == count)
    assert len(server._pending) == 5
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in names if name.startswith("request from")]
    for number, future in enumerate(promising.futures):
        future.set_result(b"%d" % number)
    assert [await client.receive() for client in clients] == [b"%d" % each for each in range(5)]
    assert len(server._pending) == 0
    await clients[0].send(framed(b"again"))
    await until(lambda: len(promising.futures) == 6)
    promising.futures[5].set_result(b"more")
    assert await clients[0].receive() == b"more"


@both
async def test_what_is_promised_to_a_peer_that_has_gone_leaves_nothing_behind(threads):
    promising = Promising()
    server = await serving(promising, num_network_threads=threads)
    client = await Client.connect(server)
    await client.send(framed(b"ask"))
    await until(lambda: promising.futures)
    client.reset()
    await until(lambda: len(server) == 0 and len(server._pending) == 0)
    assert promising.futures[0].cancelled()
    await until(lambda: not any(unsettled_in(server)))


async def test_nothing_is_promised_to_a_peer_that_went_while_it_asked():
    future, delivered = asyncio.get_running_loop().create_future(), []
    gone = Peer("1", "host", "PLAINTEXT", is_gone=True)
    pending = PendingAnswers(lambda *_: 1 / 0)
    pending.wait(Promised(future, bytes), gone, delivered.append)
    assert (future.cancelled(), delivered, len(pending)) == (True, [None], 0)


@both
async def test_a_promise_that_cannot_be_kept_closes_its_connection_alone(threads):
    def promise(frame, peer):
        future = asyncio.get_running_loop().create_future()
        future.set_result(b"no number" if bytes(frame) == b"odd" else b"7")
        return Promised(future, lambda text: [framed(b"%d" % int(text))])

    server = await serving(promise, num_network_threads=threads)
    odd, other = [await Client.connect(server) for _ in range(2)]
    await odd.send(framed(b"odd"))
    await other.send(framed(b"even"))
    assert await other.receive() == b"7"
    await until(lambda: len(server) == 1)


@both
async def test_what_is_at_work_goes_on_without_its_peer_and_is_counted(threads):
    held = Held()
    server = await serving(held, num_network_threads=threads)
    client = await Client.connect(server)
    await client.send(framed(b"12345"))
    await held.wait_for(1)
    client.reset()
    await until(lambda: len(server) == 0)
    assert not held.asked[0].done()
    assert sum(memory.used_bytes for memory in memories_of(server)) == 9
    assert sum(memory.in_progress for memory in memories_of(server)) == 1
    held.answer()
    await until(lambda: not any(memory.used_bytes for memory in memories_of(server)))
    assert not any(memory.in_progress for memory in memories_of(server))


@both
async def test_what_is_parked_after_its_peer_has_gone_is_not_begun(threads):
    held, parked = Held(), Held()

    async def work_and_park(frame, peer):
        await held(frame, peer)
        return Parked(partial(parked, frame, peer))

    server = await serving(work_and_park, num_network_threads=threads)
    client = await Client.connect(server)
    await client.send(framed(b"x"))
    await held.wait_for(1)
    client.reset()
    await until(lambda: len(server) == 0)
    held.answer()
    await until(lambda: len(server._pending) == 0)
    assert parked.asked == []


@both
async def test_no_more_are_in_progress_than_the_setting_says(threads):
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
async def test_any_number_may_be_parked(threads):
    held = Held()
    server = await serving(parked_in(held), num_network_threads=threads, queued_max_requests=1)
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
async def test_stopping_does_not_wait_for_what_cannot_come_any_more(threads, caplog):
    held, parked = Held(), Held()

    async def work_and_park(frame, peer):
        await held(frame, peer)
        return Parked(partial(parked, frame, peer))

    server = await serving(
        lambda frame, peer: (
            work_and_park(frame, peer) if frame == b"delete" else parked_in(parked)(frame, peer)
        ),
        num_network_threads=threads,
    )
    polling, deleting = await Client.connect(server), await Client.connect(server)
    await polling.send(framed(b"fetch"))
    await deleting.send(framed(b"delete"))
    await held.wait_for(1)
    await parked.wait_for(1)
    stopping = asyncio.gather(server.stop(timeout_s=30), return_exceptions=True)
    assert await polling.is_ended()
    assert not stopping.done()
    held.answer()
    assert await deleting.is_ended()
    assert await stopping == [None]
    assert caplog.records == []


@both
async def test_stopping_waits_for_what_comes_by_itself(threads):
    held = Held()
    server = await serving(parked_in(held, ends_alone=True), num_network_threads=threads)
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
async def test_a_peer_that_left_by_ending_its_input_is_found_when_it_was_idle_for_too_long(threads):
    held = Held()
    server = await serving(parked_in(held), num_network_threads=threads, connections_max_idle_ms=0)
    client = await Client.connect(server)
    await client.send(framed(b"fetch"))
    await held.wait_for(1)
    client.end_input()
    await until(lambda: len(server) == 0)
    await until(lambda: held.asked[0].cancelled())
