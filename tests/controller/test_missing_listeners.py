"""Controllers ignore brokers that do not have the inter-broker listener."""

from dataclasses import replace
from random import Random

import pytest

from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.registration import BrokerIdentity
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_planning import NewTopic, TopicDefaults
from tests.support.controlled_cluster import ControlledCluster
from tests.support.controller_scene import LISTENER, registration
from tests.support.stores import MemoryStores
from tests.support.topic_entries import topic_entry


class Cluster(ControlledCluster):
    """A cluster whose ``without_listener`` brokers share no listener with the others."""

    without_listener = ()

    def identity(self, broker):
        if broker not in self.without_listener:
            return super().identity(broker)
        value = registration(broker)
        endpoint = replace(value.endpoints[0], listener="ELSEWHERE")
        return BrokerIdentity(broker, replace(value, endpoints=(endpoint,)), endpoint.listener)

    def know_each_other(self, *brokers):
        """Whether these brokers have exactly each other in their metadata."""
        return all(self.brokers[broker].live_brokers.keys() == {*brokers} for broker in brokers)


async def test_controller_is_elected_despite_a_broker_without_its_listener():
    async with Cluster(MemoryStores()) as cluster:
        cluster.without_listener = (4,)
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2], [4, 3])
        await cluster.start(4)
        await cluster.until(lambda: cluster.led() == {"t-0": [1], "t-1": [3]})
        await cluster.kill(1)
        await cluster.until(lambda: cluster.controller_id in (2, 3))
        await cluster.until(lambda: cluster.know_each_other(2, 3))
        await cluster.until(lambda: cluster.led() == {"t-0": [2], "t-1": [3]})


async def test_controller_without_the_listener_of_most_brokers_resigns():
    async with Cluster(MemoryStores()) as cluster:
        cluster.without_listener = (4,)
        await cluster.start(4)
        await cluster.until(lambda: cluster.controller_id == 4)
        await cluster.start(1)
        await cluster.start(2)
        await cluster.until(lambda: cluster.controller_id in (1, 2))
        await cluster.until(lambda: cluster.know_each_other(1, 2))


@pytest.mark.parametrize(
    ("controller_listener", "has_listeners"),
    [("", True), (LISTENER, True), ("OUTSIDE", True), ("CONTROL", False)],
)
def test_required_listeners_are_those_of_brokers_and_controllers(
    controller_listener, has_listeners
):
    assert (
        BrokerIdentity(1, registration(1), LISTENER, controller_listener).has_required_listeners(
            registration(2)
        )
        is has_listeners
    )


async def test_no_replica_is_placed_on_a_broker_without_the_listener():
    async with Cluster(MemoryStores()) as cluster:
        cluster.without_listener = (3,)
        await cluster.start(1, 2, 3)
        admin = TopicAdmin(
            cluster.sessions[1],
            MetadataReader(cluster.sessions[1]),
            defaults=lambda: TopicDefaults(num_partitions=9, replication_factor=2),
            random=Random(1),
            new_topic_id=lambda: None,
            has_required_listeners=cluster.identity(1).has_required_listeners,
        )
        (plan,) = (await admin.plan_topics([topic_entry("t")])).values()
        assert isinstance(plan, NewTopic)
        replica_lists = {assignment.replicas for assignment in plan.assignment.partitions.values()}
        assert replica_lists == {(1, 2), (2, 1)}
