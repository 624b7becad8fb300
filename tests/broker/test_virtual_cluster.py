"""A simulated cluster with faults: acknowledged records are kept once, and all replicas agree."""

import asyncio
from random import Random

import pytest

from odradek.broker import assembly, clock, time_slice
from odradek.broker.replicas import replica_fetcher
from odradek.controller.store import paths
from odradek.controller.store.payloads import broker as registered
from odradek.protocol.errors import RequestTimedOut
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import topic_id
from tests.support.virtual_brokers import SESSION_S
from tests.support.virtual_clients import TOPIC
from tests.support.virtual_cluster import PATIENCE_S, VirtualCluster


@pytest.fixture
def cluster(request, tmp_path, monkeypatch):
    seed = getattr(request, "param", 0)
    cluster = VirtualCluster(tmp_path, seed)
    monkeypatch.setattr(assembly, "_random", Random(seed))
    monkeypatch.setattr(clock, "now_ms", cluster.loop.now_ms)
    monkeypatch.setattr(clock, "monotonic_ms", cluster.loop.now_ms)
    monkeypatch.setattr(replica_fetcher, "monotonic", cluster.loop.time)
    monkeypatch.setattr(time_slice, "monotonic", lambda: 0.0)
    return cluster


PASSING = TopicPartition("passing", 0)
SOAKED = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 100)]


@pytest.mark.parametrize("cluster", [0, 1, 2, *SOAKED], indirect=True)
def test_acknowledged_records_survive_broker_failures(cluster):
    cluster.live(cluster.befall(12))
    assert not cluster.violations, "\n".join(cluster.log)
    assert all(client.acked for client in cluster.clients)


def is_leader(cluster, number, partition):
    return any(
        number == broker_id
        and replica.topic_partition == partition
        and replica.leader_state is not None
        for broker_id, replica in cluster.replicas
    )


def test_isolated_broker_stops_leading_a_reassigned_partition(cluster):
    partition = TopicPartition(TOPIC, 0)

    async def story():
        await cluster.isolate(1)
        await asyncio.sleep(SESSION_S)
        await cluster.until(lambda: is_leader(cluster, 2, partition))
        await cluster.reassign(partition, (2, 3, 4))
        await cluster.until(lambda: cluster.assigned[partition] == (2, 3, 4))
        assert is_leader(cluster, 1, partition)  # no broker could notify it
        await cluster.heal(1)
        await cluster.until(lambda: not is_leader(cluster, 1, partition))

    cluster.live(story())


async def delete_topic_while_broker_1_is_isolated(cluster):
    """Isolates the leader of a topic, reassigns the topic and deletes it."""
    await cluster.create(PASSING.topic, PASSING.topic, (1, 2, 3))
    await cluster.until(lambda: is_leader(cluster, 1, PASSING))
    await cluster.isolate(1)
    await asyncio.sleep(SESSION_S)
    await cluster.until(lambda: is_leader(cluster, 2, PASSING))
    await cluster.reassign(PASSING, (2, 3, 4))
    await cluster.until(lambda: cluster.assigned[PASSING] == (2, 3, 4))
    await cluster.tool.create(paths.topic_to_delete(PASSING.topic))
    await cluster.until(lambda: not cluster.has_node(paths.topic(PASSING.topic)))
    assert is_leader(cluster, 1, PASSING)


@pytest.mark.parametrize("replicas", [(2, 3, 4), (4, 1, 2)])
def test_topic_recreated_during_isolation_is_not_led_by_the_old_leader(cluster, replicas):
    async def story():
        await delete_topic_while_broker_1_is_isolated(cluster)
        await cluster.create(PASSING.topic, "again", replicas)
        await cluster.until(lambda: is_leader(cluster, replicas[0], PASSING))
        await cluster.heal(1)
        metadata_cache = cluster.brokers[1].parts.metadata_cache
        await cluster.until(lambda: metadata_cache.topic_id(PASSING.topic) == topic_id("again"))
        assert not is_leader(cluster, 1, PASSING)

    cluster.live(story())


def test_topic_deleted_during_isolation_disappears_from_the_metadata(cluster):
    async def story():
        await delete_topic_while_broker_1_is_isolated(cluster)
        metadata_cache = cluster.brokers[1].parts.metadata_cache
        assert metadata_cache.has_topic(PASSING.topic)
        await cluster.heal(1)
        while metadata_cache.has_topic(PASSING.topic):
            assert metadata_cache.has_topic(TOPIC)
            await asyncio.sleep(0.001)
        assert metadata_cache.has_topic(TOPIC)

    cluster.live(asyncio.wait_for(story(), PATIENCE_S))


def test_broker_with_other_listeners_does_not_stop_a_controller(cluster):
    async def story():
        endpoint = registered.Endpoint(
            "ELSEWHERE", "host", 1, registered.SecurityProtocol.PLAINTEXT
        )
        value = registered.BrokerRegistration((endpoint,)).encode()
        await cluster.tool.create(paths.broker(9), value, is_ephemeral=True)
        await cluster.until(active_controllers)
        (first,) = active_controllers()
        await cluster.isolate(first)
        await cluster.until(lambda: {*active_controllers()} - {first})
        await cluster.until(lambda: not cluster.is_whole())
        await cluster.heal(first)
        await cluster.until(cluster.is_whole)
        assert 9 not in cluster.brokers[first].parts.metadata_cache.snapshot.brokers.ids

    def active_controllers():
        running = cluster.lines.running.items()
        return [number for number, broker in running if broker.parts.controller.is_active]

    cluster.live(story())


def test_request_to_silent_controller_ends_after_controller_socket_timeout_ms(cluster):
    async def story():
        controller = cluster.brokers[1].parts.controller.controller_id
        sender = next(broker_id for broker_id in cluster.brokers if broker_id != controller)
        cluster.lines.cut_pairs.add(frozenset((controller, sender)))
        started_s = cluster.loop.time()
        with pytest.raises(RequestTimedOut):
            await cluster.brokers[sender].parts.controller_client.allocate_producer_ids()
        assert cluster.loop.time() - started_s == pytest.approx(2, abs=0.01)

    cluster.live(story())
