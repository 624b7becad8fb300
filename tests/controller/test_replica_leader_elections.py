"""Tests of controller/preferred_leaders.py, on the memory store."""

from dataclasses import replace

from odradek.controller.leadership import NO_LEADER, Leadership
from odradek.controller.preferred_leaders import ElectionKind, PreferredLeaders
from odradek.controller.store import paths
from odradek.controller.store.payloads.admin import PreferredReplicaElection
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from tests.support.controller_parts import Events, machinery_of
from tests.support.controller_scene import EPOCH, controller_scene
from tests.support.stores import MemoryStores

BY_2 = Leadership(2, 0, (1, 2), controller_epoch=EPOCH, partition_epoch=0)


class Led:
    """Topic t has partitions on brokers 1 and 2 that prefer 1, topic u one that prefers 2."""

    async def begin(self, *leaders, brokers=(1, 2), **changed):
        self.store = await MemoryStores().open()
        self.scene = await controller_scene(self.store, brokers=brokers)
        self.context = self.scene.context
        t = await self.scene.add_topic("t", *[[1, 2] for _ in leaders])
        leaderships = {
            partition: replace(BY_2, leader=leader, **changed)
            for partition, leader in zip(t, leaders, strict=True)
        }
        await self.scene.add_leaders(leaderships)
        for partition in t:
            self.context.move_partition(partition, self.scene.partitions._found_state(partition))
        self.events = Events()
        watch = self.events.watches.preferred_elections
        self.preferred = PreferredLeaders(machinery_of(self.scene), watch)
        self.t = t
        return self

    @property
    def leaders(self):
        return [self.context.leader(each) for each in self.t]

    async def elected(self, kind, partitions):
        results = await self.preferred.elect(kind, partitions)
        return {
            each: result.error if isinstance(result, KafkaError) else result
            for each, result in results.items()
        }


async def test_the_preferred_replica_leads_again():
    led = await Led().begin(2, 1)
    t0, t1 = led.t
    assert await led.elected(ElectionKind.PREFERRED, led.t) == {
        t0: 1,
        t1: ErrorCode.ELECTION_NOT_NEEDED,
    }
    assert (await led.scene.reads.leaderships([t0]))[t0].leader == 1


async def test_a_preferred_replica_that_is_not_there_cannot_lead():
    led = await Led().begin(2, brokers=[2])
    assert await led.elected(ElectionKind.PREFERRED, led.t) == {
        led.t[0]: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    }


async def test_an_unclean_election_is_for_partitions_without_a_leader():
    led = await Led().begin(NO_LEADER, 2, isr=(1,), brokers=[2])
    t0, t1 = led.t
    assert await led.elected(ElectionKind.UNCLEAN, led.t) == {
        t0: 2,
        t1: ErrorCode.ELECTION_NOT_NEEDED,
    }
    assert led.context.leaderships[t0].is_recovering


async def test_nobody_alive_means_nobody_eligible():
    led = await Led().begin(NO_LEADER, brokers=[3])
    assert await led.elected(ElectionKind.UNCLEAN, led.t) == {
        led.t[0]: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    }


async def test_unknown_and_doomed_partitions_are_told_apart():
    led = await Led().begin(2)
    led.context.to_delete.add("t")
    unknown = TopicPartition("t", 9)
    assert await led.elected(ElectionKind.PREFERRED, [*led.t, unknown]) == {
        led.t[0]: ErrorCode.INVALID_TOPIC_EXCEPTION,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_of_all_partitions_only_those_that_needed_it_are_told():
    led = await Led().begin(2, 1)
    assert await led.elected(ElectionKind.PREFERRED, None) == {led.t[0]: 1}
    assert await led.elected(ElectionKind.PREFERRED, None) == {}


async def test_the_node_is_obeyed_and_taken_away():
    led = await Led().begin(2, 2)
    asked = PreferredReplicaElection((led.t[0], TopicPartition("unknown", 0)))
    await led.store.create(paths.PREFERRED_REPLICA_ELECTION, asked.encode())
    await led.preferred.look()
    assert led.leaders == [1, 2]
    assert await led.store.exists(paths.PREFERRED_REPLICA_ELECTION) is None
    assert led.events.put


async def test_without_the_node_it_is_only_watched():
    led = await Led().begin(2)
    await led.preferred.look()
    assert led.events.put == []
    await led.store.create(paths.PREFERRED_REPLICA_ELECTION, b"{}")
    assert led.leaders == [2]
    await led.preferred.look()
    assert led.events.put


async def test_leaders_are_balanced_only_beyond_the_percentage():
    led = await Led().begin(2, 1, 1, 1)
    await led.preferred.balance(percentage=25)
    assert led.leaders == [2, 1, 1, 1]
    await led.preferred.balance(percentage=24)
    assert led.leaders == [1, 1, 1, 1]


async def test_balancing_leaves_alone_what_the_preferred_replica_cannot_lead():
    led = await Led().begin(2, isr=(2,))
    await led.preferred.balance(percentage=0)
    assert led.context.leaderships[led.t[0]].leader_epoch == 0
