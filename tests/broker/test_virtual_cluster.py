"""Whatever befalls brokers: what is acknowledged is there, once, and nobody disagrees."""

import asyncio
from random import Random

import pytest

from odradek.broker import assembly, clock, turns
from odradek.broker.replicas import fetcher
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
    monkeypatch.setattr(clock, "steady_ms", cluster.loop.now_ms)
    monkeypatch.setattr(fetcher, "monotonic", cluster.loop.time)
    monkeypatch.setattr(turns, "monotonic", lambda: 0.0)
    return cluster


PASSING = TopicPartition("passing", 0)
SOAKED = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 100)]


@pytest.mark.parametrize("cluster", [0, 1, 2, *SOAKED], indirect=True)
def test_what_is_acknowledged_survives_whatever_befalls_brokers(cluster):
    cluster.live(cluster.befall(12))
    assert not cluster.violations, "\n".join(cluster.log)
    assert all(client.acked for client in cluster.clients)


def leads(cluster, number, place):
    return any(
        number == at and each.topic_partition == place and each.leader is not None
        for at, each in cluster.replicas
    )


def test_what_was_moved_from_a_broker_that_was_cut_off_is_not_led_there_any_more(cluster):
    place = TopicPartition(TOPIC, 0)

    async def story():
        await cluster.isolate(1)
        await asyncio.sleep(SESSION_S)
        await cluster.until(lambda: leads(cluster, 2, place))
        await cluster.reassign(place, (2, 3, 4))
        await cluster.until(lambda: cluster.assigned[place] == (2, 3, 4))
        assert leads(cluster, 1, place)  # whom nobody could tell
        await cluster.heal(1)
        await cluster.until(lambda: not leads(cluster, 1, place))

    cluster.live(story())


async def lose_a_topic_while_1_is_away(cluster):
    """It was there when 1 was cut off, which led it, and is moved away and deleted."""
    await cluster.create(PASSING.topic, PASSING.topic, (1, 2, 3))
    await cluster.until(lambda: leads(cluster, 1, PASSING))
    await cluster.isolate(1)
    await asyncio.sleep(SESSION_S)
    await cluster.until(lambda: leads(cluster, 2, PASSING))
    await cluster.reassign(PASSING, (2, 3, 4))
    await cluster.until(lambda: cluster.assigned[PASSING] == (2, 3, 4))
    await cluster.tool.create(paths.topic_to_delete(PASSING.topic))
    await cluster.until(lambda: not cluster.has_node(paths.topic(PASSING.topic)))
    assert leads(cluster, 1, PASSING)


@pytest.mark.parametrize("replicas", [(2, 3, 4), (4, 1, 2)])
def test_a_topic_made_again_while_a_broker_was_away_is_not_the_one_it_leads(cluster, replicas):
    async def story():
        await lose_a_topic_while_1_is_away(cluster)
        await cluster.create(PASSING.topic, "again", replicas)
        await cluster.until(lambda: leads(cluster, replicas[0], PASSING))
        await cluster.heal(1)
        known = cluster.brokers[1].parts.cluster
        await cluster.until(lambda: known.id_of(PASSING.topic) == topic_id("again"))
        assert not leads(cluster, 1, PASSING)

    cluster.live(story())


def test_a_topic_deleted_while_a_broker_was_away_is_not_shown_by_it(cluster):
    async def story():
        await lose_a_topic_while_1_is_away(cluster)
        known = cluster.brokers[1].parts.cluster
        assert known.has_topic(PASSING.topic)
        await cluster.heal(1)
        while known.has_topic(PASSING.topic):
            assert known.has_topic(TOPIC)
            await asyncio.sleep(0.001)
        assert known.has_topic(TOPIC)

    cluster.live(asyncio.wait_for(story(), PATIENCE_S))


def test_a_broker_that_has_other_listeners_stops_no_controller(cluster):
    async def story():
        at = registered.Endpoint("ELSEWHERE", "host", 1, registered.SecurityProtocol.PLAINTEXT)
        value = registered.BrokerRegistration((at,)).encode()
        await cluster.tool.create(paths.broker(9), value, is_ephemeral=True)
        await cluster.until(in_office)
        (first,) = in_office()
        await cluster.isolate(first)
        await cluster.until(lambda: {*in_office()} - {first})
        await cluster.until(lambda: not cluster.is_whole())
        await cluster.heal(first)
        await cluster.until(cluster.is_whole)
        assert 9 not in cluster.brokers[first].parts.cluster.picture.brokers.ids

    def in_office():
        running = cluster.lines.running.items()
        return [number for number, broker in running if broker.parts.controller.is_active]

    cluster.live(story())


def test_a_controller_that_does_not_answer_is_given_up_after_controller_socket_timeout_ms(cluster):
    async def story():
        controller = cluster.brokers[1].parts.controller.controller_id
        asking = next(each for each in cluster.brokers if each != controller)
        cluster.lines.cut_pairs.add(frozenset((controller, asking)))
        begun_s = cluster.loop.time()
        with pytest.raises(RequestTimedOut):
            await cluster.brokers[asking].parts.controller_client.allocate_producer_ids()
        assert cluster.loop.time() - begun_s == pytest.approx(2, abs=0.01)

    cluster.live(story())
