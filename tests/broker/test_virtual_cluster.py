"""Whatever befalls brokers: what is acknowledged is there, once, and nobody disagrees."""

import asyncio
from random import Random

import pytest

from odradek.broker import assembly, clock, turns
from odradek.broker.replicas import fetcher
from odradek.protocol.errors import RequestTimedOut
from odradek.protocol.types import TopicPartition
from tests.support.virtual_brokers import SESSION_S
from tests.support.virtual_clients import TOPIC
from tests.support.virtual_cluster import VirtualCluster


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


SOAKED = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 100)]


@pytest.mark.parametrize("cluster", [0, 1, 2, *SOAKED], indirect=True)
def test_what_is_acknowledged_survives_whatever_befalls_brokers(cluster):
    cluster.live(cluster.befall(12))
    assert not cluster.violations, "\n".join(cluster.log)
    assert all(client.acked for client in cluster.clients)


def test_what_was_moved_from_a_broker_that_was_cut_off_is_not_led_there_any_more(cluster):
    place = TopicPartition(TOPIC, 0)

    async def story():
        await cluster.isolate(1)
        await asyncio.sleep(SESSION_S)
        await cluster.until(lambda: led_by(2))
        await cluster.reassign(place, (2, 3, 4))
        await cluster.until(lambda: cluster.assigned[place] == (2, 3, 4))
        assert led_by(1)  # whom nobody could tell
        await cluster.heal(1)
        await cluster.until(lambda: not led_by(1))

    def led_by(number):
        return any(
            number == at and each.topic_partition == place and each.leader is not None
            for at, each in cluster.replicas
        )

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
