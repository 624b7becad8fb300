"""Tests of controller/replica_leader_elections.py with the memory store."""

from dataclasses import replace

from odradek.controller.leader_and_isr import NO_LEADER, LeaderIsrAndControllerEpoch
from odradek.controller.replica_leader_elections import ElectionType, ReplicaLeaderElections
from odradek.controller.store import paths
from odradek.controller.store.payloads.admin import PreferredReplicaElection
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from tests.support.controller_parts import Events, machinery_of
from tests.support.controller_scene import EPOCH, controller_scene
from tests.support.stores import MemoryStores

LED_BY_2 = LeaderIsrAndControllerEpoch(2, 0, (1, 2), controller_epoch=EPOCH, partition_epoch=0)


class ElectionScene:
    """Topic t has partitions on brokers 1 and 2. Broker 1 is the preferred leader."""

    async def begin(self, *leaders, brokers=(1, 2), **changed):
        self.store = await MemoryStores().open()
        self.scene = await controller_scene(self.store, brokers=brokers)
        self.context = self.scene.context
        t = await self.scene.add_topic("t", *[[1, 2] for _ in leaders])
        leaderships = {
            partition: replace(LED_BY_2, leader=leader, **changed)
            for partition, leader in zip(t, leaders, strict=True)
        }
        await self.scene.add_leaders(leaderships)
        for partition in t:
            self.context.put_partition_state(
                partition, self.scene.partitions._initial_state(partition)
            )
        self.events = Events()
        watch = self.events.watches.on_zk_preferred_replica_election
        self.elections = ReplicaLeaderElections(machinery_of(self.scene), watch)
        self.t = t
        return self

    @property
    def leaders(self):
        return [self.context.leader(partition) for partition in self.t]

    async def elect(self, kind, partitions):
        results = await self.elections.process_replica_leader_election(kind, partitions)
        return {
            partition: result.error_code if isinstance(result, KafkaError) else result
            for partition, result in results.items()
        }


async def test_preferred_election_moves_leadership_to_the_preferred_replica():
    cluster = await ElectionScene().begin(2, 1)
    t0, t1 = cluster.t
    assert await cluster.elect(ElectionType.PREFERRED, cluster.t) == {
        t0: 1,
        t1: ErrorCode.ELECTION_NOT_NEEDED,
    }
    assert (await cluster.scene.reads.get_topic_partition_states([t0]))[t0].leader == 1


async def test_preferred_election_fails_when_the_preferred_replica_is_offline():
    cluster = await ElectionScene().begin(2, brokers=[2])
    assert await cluster.elect(ElectionType.PREFERRED, cluster.t) == {
        cluster.t[0]: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    }


async def test_unclean_election_applies_only_to_partitions_without_leader():
    cluster = await ElectionScene().begin(NO_LEADER, 2, isr=(1,), brokers=[2])
    t0, t1 = cluster.t
    assert await cluster.elect(ElectionType.UNCLEAN, cluster.t) == {
        t0: 2,
        t1: ErrorCode.ELECTION_NOT_NEEDED,
    }
    assert cluster.context.partition_leadership_info[t0].is_recovering


async def test_unclean_election_fails_without_live_replicas():
    cluster = await ElectionScene().begin(NO_LEADER, brokers=[3])
    assert await cluster.elect(ElectionType.UNCLEAN, cluster.t) == {
        cluster.t[0]: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    }


async def test_unknown_partition_and_topic_being_deleted_get_different_errors():
    cluster = await ElectionScene().begin(2)
    cluster.context.topics_to_be_deleted.add("t")
    unknown = TopicPartition("t", 9)
    assert await cluster.elect(ElectionType.PREFERRED, [*cluster.t, unknown]) == {
        cluster.t[0]: ErrorCode.INVALID_TOPIC_EXCEPTION,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_election_for_all_partitions_returns_only_the_changed_ones():
    cluster = await ElectionScene().begin(2, 1)
    assert await cluster.elect(ElectionType.PREFERRED, None) == {cluster.t[0]: 1}
    assert await cluster.elect(ElectionType.PREFERRED, None) == {}


async def test_preferred_replica_election_znode_is_processed_and_deleted():
    cluster = await ElectionScene().begin(2, 2)
    requested = PreferredReplicaElection((cluster.t[0], TopicPartition("unknown", 0)))
    await cluster.store.create(paths.PREFERRED_REPLICA_ELECTION, requested.encode())
    await cluster.elections.process_preferred_replica_election()
    assert cluster.leaders == [1, 2]
    assert await cluster.store.exists(paths.PREFERRED_REPLICA_ELECTION) is None
    assert cluster.events.put


async def test_missing_preferred_replica_election_znode_is_watched():
    cluster = await ElectionScene().begin(2)
    await cluster.elections.process_preferred_replica_election()
    assert cluster.events.put == []
    await cluster.store.create(paths.PREFERRED_REPLICA_ELECTION, b"{}")
    assert cluster.leaders == [2]
    await cluster.elections.process_preferred_replica_election()
    assert cluster.events.put


async def test_auto_rebalance_runs_only_above_the_imbalance_percentage():
    cluster = await ElectionScene().begin(2, 1, 1, 1)
    await cluster.elections.check_and_trigger_auto_leader_rebalance(percentage=25)
    assert cluster.leaders == [2, 1, 1, 1]
    await cluster.elections.check_and_trigger_auto_leader_rebalance(percentage=24)
    assert cluster.leaders == [1, 1, 1, 1]


async def test_auto_rebalance_skips_partitions_whose_preferred_replica_is_not_in_isr():
    cluster = await ElectionScene().begin(2, isr=(2,))
    await cluster.elections.check_and_trigger_auto_leader_rebalance(percentage=0)
    assert cluster.context.partition_leadership_info[cluster.t[0]].leader_epoch == 0
