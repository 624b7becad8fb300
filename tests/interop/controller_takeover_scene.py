"""A cluster of ours that leaves a tree with a deletion and a reassignment unfinished.

    .venv/bin/python -m tests.interop.controller_takeover_scene ADDRESS/BRANCH

does so in a process of its own, says LEFT, and waits to be killed.

Its brokers are simulated; each has a controller and a session with ZooKeeper.

Owner: the event loop.
"""

import asyncio
import sys
from random import Random

from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.config_alterations import prepare_incremental_config
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.registration import create_or_get_cluster_id
from odradek.controller.store import paths
from odradek.controller.store.base import MetadataStore
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_planning import NewPartitions, NewTopic, TopicDefaults
from odradek.controller.zookeeper_settings import ZooKeeperSettings
from odradek.protocol.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.types import TopicPartition
from tests.support.controlled_cluster import ControlledCluster
from tests.support.followers import Followers
from tests.support.loops import finish
from tests.support.topic_entries import growth_entry, topic_entry
from tests.support.zookeeper import opened

LEFT = "left"
SESSION_TIMEOUT_MS = 4_000
CLUSTER_ID = "clusterThatOursHasMade"
SET = 0
MOVED = TopicPartition("moving", 0)
TOPICS = {
    "steady": {0: [1, 2], 1: [2, 3], 2: [3, 1]},
    "lonely": {0: [3]},
    "moving": {0: [1, 2], 1: [2, 1]},
    "going": {0: [3, 1], 1: [1, 2]},
}
PARTITIONS = 10  # when one of them has grown

Change = IncrementalAlterConfigsRequest.Resource.Config


class Branch:
    """Sessions on one branch of ZooKeeper's tree."""

    def __init__(self, address: str) -> None:
        self._settings = ZooKeeperSettings(connect=address, session_timeout_ms=SESSION_TIMEOUT_MS)

    async def open(self) -> MetadataStore:
        return await opened(self._settings)

    async def expire(self, store: MetadataStore) -> None:
        raise NotImplementedError


async def leave_in_order(address: str) -> None:
    """One broker after the other stops, the controller last."""
    async with ControlledCluster(Branch(address), auto_leader_rebalance_enable=False) as cluster:
        await leave_unfinished(cluster)
        for broker in (2, 1):
            await _stop(cluster, broker)


async def leave_by_a_kill(address: str) -> None:
    """It waits for that."""
    async with ControlledCluster(Branch(address), auto_leader_rebalance_enable=False) as cluster:
        await leave_unfinished(cluster)
        sys.stdout.write(f"{LEFT}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


async def leave_unfinished(cluster: ControlledCluster) -> None:
    """Broker 3 is what both wait for; 1 is the controller."""
    await cluster.start_three()
    store = await cluster.open_outside()
    await create_or_get_cluster_id(store, CLUSTER_ID)
    topics = TopicAdmin(
        store,
        MetadataReader(store),
        defaults=TopicDefaults,
        random=Random(1),
        new_topic_id=lambda: random_topic_id(Random()),
    )
    await _create(topics)
    await _configure(store)
    await cluster.until(lambda: len(cluster.leaders() or ()) == PARTITIONS)
    await cluster.until_agreed()
    outcomes = await cluster.controller.alter_partition_reassignments({MOVED: (1, 3)})
    assert outcomes == {MOVED: None}
    await _stop(cluster, 3)
    assert await topics.request_deletions(["going"]) == {}
    followers = Followers(cluster)
    await followers.until(lambda: _has_lost_its_last_leader(cluster))


async def _create(topics: TopicAdmin) -> None:
    config = {"steady": {"retention.ms": "3600000"}}
    entries = [
        topic_entry(name, replicas=replicas, config=config.get(name))
        for name, replicas in TOPICS.items()
    ]
    plans = await topics.plan_topics(entries)
    new = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
    assert await topics.create_topics(new) == {}
    grown = await topics.plan_partitions(
        [growth_entry("steady", count=5, replicas=[[2, 1], [1, 3]])]
    )
    growths = [plan for plan in grown.values() if isinstance(plan, NewPartitions)]
    assert await topics.create_partitions(growths) == {}
    assert (len(new), len(growths)) == (len(TOPICS), 1)


async def _configure(store: MetadataStore) -> None:
    configs = ConfigAdmin(store, server_settings=lambda: ())
    size = Change(name="max.message.bytes", config_operation=SET, value="2000")
    await configs.incremental_alter_topic_config("steady", [size])
    threads = Change(name="log.cleaner.threads", config_operation=SET, value="2")
    await configs.update_entity_config(
        paths.broker_config(2), lambda now: prepare_incremental_config(now, [threads], {})
    )
    alice = paths.user_client_config(user="alice", client_id=None)
    await configs.update_entity_config(alice, lambda now: {**now, "producer_byte_rate": "1024"})


async def _stop(cluster: ControlledCluster, broker: int) -> None:
    epoch = cluster.controllers[broker].broker_epoch
    await cluster.controller.controlled_shutdown(broker, broker_epoch=epoch)
    await cluster.kill(broker)


async def _has_lost_its_last_leader(cluster: ControlledCluster) -> bool:
    return (await cluster.state("lonely")).leader < 0


if __name__ == "__main__":
    finish(leave_by_a_kill(sys.argv[1]))
