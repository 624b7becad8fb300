"""Brokers that have other listeners than the rest, and controllers that go on without them."""

from dataclasses import replace
from random import Random

import pytest

from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.registration import Identity
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_requests import NewTopic, TopicDefaults
from tests.support.controlled_cluster import ControlledCluster
from tests.support.controller_scene import LISTENER, registration
from tests.support.stores import MemoryStores
from tests.support.topic_entries import topic_entry


class Cluster(ControlledCluster):
    """Of which some are ``elsewhere``: they and the others do not find each other."""

    elsewhere = ()

    def identity(self, broker):
        if broker not in self.elsewhere:
            return super().identity(broker)
        value = registration(broker)
        at = replace(value.endpoints[0], listener="ELSEWHERE")
        return Identity(broker, replace(value, endpoints=(at,)), at.listener)

    def know(self, *brokers):
        """Whether they know of exactly each other."""
        return all(self.brokers[each].live_brokers.keys() == {*brokers} for each in brokers)


async def test_a_controller_takes_office_though_there_is_one_that_it_does_not_find():
    async with Cluster(MemoryStores()) as cluster:
        cluster.elsewhere = (4,)
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2], [4, 3])
        await cluster.start(4)
        await cluster.until(lambda: cluster.led() == {"t-0": [1], "t-1": [3]})
        await cluster.kill(1)
        await cluster.until(lambda: cluster.controller_id in (2, 3))
        await cluster.until(lambda: cluster.know(2, 3))
        await cluster.until(lambda: cluster.led() == {"t-0": [2], "t-1": [3]})


async def test_one_that_most_do_not_find_leaves_office_to_them():
    async with Cluster(MemoryStores()) as cluster:
        cluster.elsewhere = (4,)
        await cluster.start(4)
        await cluster.until(lambda: cluster.controller_id == 4)
        await cluster.start(1)
        await cluster.start(2)
        await cluster.until(lambda: cluster.controller_id in (1, 2))
        await cluster.until(lambda: cluster.know(1, 2))


@pytest.mark.parametrize(
    ("control", "is_found"), [("", True), (LISTENER, True), ("OUTSIDE", True), ("CONTROL", False)]
)
def test_a_broker_is_found_by_the_listeners_of_brokers_and_of_controllers(control, is_found):
    assert Identity(1, registration(1), LISTENER, control).finds(registration(2)) is is_found


async def test_no_replica_is_placed_on_a_broker_that_is_not_found():
    async with Cluster(MemoryStores()) as cluster:
        cluster.elsewhere = (3,)
        await cluster.start(1, 2, 3)
        admin = TopicAdmin(
            cluster.sessions[1],
            MetadataReads(cluster.sessions[1]),
            defaults=lambda: TopicDefaults(partitions=9, replication_factor=2),
            random=Random(1),
            new_topic_id=lambda: None,
            finds=cluster.identity(1).finds,
        )
        (plan,) = (await admin.plan_topics([topic_entry("t")])).values()
        assert isinstance(plan, NewTopic)
        placed = {each.replicas for each in plan.topic.partitions.values()}
        assert placed == {(1, 2), (2, 1)}
