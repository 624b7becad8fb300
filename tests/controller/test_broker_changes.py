"""Tests of controller/brokers.py, offline_replicas.py, log_dirs.py and controlled_shutdown.py."""

from dataclasses import replace

import pytest

from odradek.controller.broker_link import Answer
from odradek.controller.brokers import Brokers, Outnumbered, Terms, Waiting
from odradek.controller.context import Replica
from odradek.controller.controlled_shutdown import shut_down
from odradek.controller.features import Features
from odradek.controller.leadership import NO_LEADER
from odradek.controller.log_dirs import LogDirs
from odradek.controller.offline_replicas import OfflineReplicas
from odradek.controller.registration import Identity
from odradek.controller.replica_state import ReplicaState
from odradek.controller.request_versions import LATEST
from odradek.controller.store import paths
from odradek.controller.store.payloads.cluster import FeatureStatus, FinalizedFeatures
from odradek.controller.store.payloads.notifications import LogDirEvent
from odradek.controller.topic_changes import TopicChanges
from odradek.protocol.api.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from odradek.protocol.api.stop_replica import StopReplicaRequest
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import BrokerNotAvailable, StaleBrokerEpoch
from tests.support.controller_parts import Events, Noted, machinery_of
from tests.support.controller_scene import LISTENER, controller_scene, registration, topic_id
from tests.support.stores import MemoryStores


class Channels:
    """Notes for which brokers, in which epoch, there is a channel."""

    def __init__(self):
        self.epochs = {}

    def add(self, broker):
        self.epochs[broker.id] = broker.epoch

    def remove(self, broker):
        del self.epochs[broker]


class Cluster:
    """Brokers 1, 2 and 3, with topic t as given, loaded and online."""

    async def begin(self, *assignments, brokers=(1, 2, 3), unfound=()):
        self.store = await MemoryStores().open()
        self.scene = await controller_scene(self.store, brokers=())
        self.context = self.scene.context
        self.machinery = machinery_of(self.scene)
        self.events, self.noted, self.channels = Events(), Noted(), Channels()
        watches = self.events.watches
        offline = OfflineReplicas(self.machinery, self.noted)
        self.features = Features(self.scene.reads, self.scene.writes, LATEST, {})
        self.brokers = Brokers(
            self.machinery,
            self.channels,
            watches,
            Terms(self.features, Identity(1, registration(1), LISTENER).finds),
            offline,
            Waiting(self.noted, self.noted),
        )
        self.log_dirs = LogDirs(self.machinery, watches.log_dir_events, offline)
        for broker in brokers:
            await self.register(broker, elsewhere(broker) if broker in unfound else None)
        await self.brokers.load()
        self.t = await self.scene.add_topic("t", *assignments)
        await TopicChanges(self.machinery, watches, None)._begin(self.t)
        self.forget()
        return self

    def forget(self):
        self.scene.batch.send()
        self.scene.sent.requests.clear()
        self.events.put.clear()

    async def register(self, broker, value=None):
        path = paths.broker(broker)
        await self.store.create(path, (value or registration(broker)).encode(), is_ephemeral=True)

    async def unregister(self, broker):
        await self.store.delete(paths.broker(broker))

    def told(self, broker, kind):
        self.scene.batch.send()
        return [
            request
            for to, request, _ in self.scene.sent.requests
            if to == broker and isinstance(request, kind)
        ]

    def leadership(self, number=0):
        leadership = self.context.leaderships[self.t[number]]
        return (leadership.leader, leadership.isr)

    def state(self, broker, number=0):
        return self.context.replica_state(Replica(self.t[number], broker))


async def test_all_registered_brokers_are_found():
    cluster = await Cluster().begin([1, 2])
    epochs = {each: cluster.context.brokers[each].epoch for each in (1, 2, 3)}
    assert cluster.channels.epochs == epochs
    assert cluster.context.brokers[1].registration == registration(1)


async def test_when_a_leader_leaves_another_leads():
    cluster = await Cluster().begin([1, 2], [2, 3])
    await cluster.unregister(1)
    await cluster.brokers.look()
    assert cluster.leadership(0) == (2, (2,))
    assert cluster.leadership(1) == (2, (2, 3))
    assert cluster.state(1) is ReplicaState.OFFLINE
    assert set(cluster.channels.epochs) == {2, 3}
    (told,) = cluster.told(2, LeaderAndIsrRequest)
    assert [state.leader for state in told.topic_states[0].partition_states] == [2]
    (picture,) = cluster.told(3, UpdateMetadataRequest)
    assert [broker.id for broker in picture.live_brokers] == [2, 3]


async def test_when_a_follower_leaves_it_is_not_in_sync_any_more():
    cluster = await Cluster().begin([1, 2])
    await cluster.unregister(2)
    await cluster.brokers.look()
    assert cluster.leadership() == (1, (1,))


async def test_the_last_in_sync_stays_in_sync_and_leads_when_it_is_back():
    cluster = await Cluster().begin([1])
    await cluster.unregister(1)
    await cluster.brokers.look()
    assert cluster.leadership() == (NO_LEADER, (1,))
    await cluster.register(1)
    await cluster.brokers.look()
    assert cluster.leadership() == (1, (1,))
    assert cluster.state(1) is ReplicaState.ONLINE


async def test_a_newcomer_hears_of_everything_and_then_of_what_it_has():
    cluster = await Cluster().begin([1, 2], [2, 1], brokers=(1, 2))
    await cluster.register(3)
    await cluster.brokers.look()
    (picture,) = cluster.told(3, UpdateMetadataRequest)
    assert len(picture.topic_states[0].partition_states) == 2
    assert cluster.told(3, LeaderAndIsrRequest) == []
    (others,) = cluster.told(1, UpdateMetadataRequest)
    assert (len(others.live_brokers), others.topic_states) == (3, [])
    assert cluster.noted.calls == [("joined", [3])]


async def test_a_broker_with_a_new_epoch_has_left_and_returned():
    cluster = await Cluster().begin([1, 2])
    old = cluster.context.brokers[1].epoch
    await cluster.unregister(1)
    await cluster.register(1)
    await cluster.brokers.look()
    assert cluster.channels.epochs[1] == cluster.context.brokers[1].epoch > old
    assert cluster.leadership() == (2, (2,))
    assert cluster.state(1) is ReplicaState.ONLINE
    requests = cluster.told(1, UpdateMetadataRequest | LeaderAndIsrRequest)
    assert isinstance(requests[0], UpdateMetadataRequest)
    assert isinstance(requests[1], LeaderAndIsrRequest)
    assert requests[1].broker_epoch == cluster.channels.epochs[1]


async def test_other_endpoints_are_told_to_all():
    cluster = await Cluster().begin([1, 2])
    await cluster.store.set(paths.broker(1), registration(7).encode())
    await cluster.brokers.look_at(1)
    (told,) = cluster.told(2, UpdateMetadataRequest)
    assert told.live_brokers[0].endpoints[0].host == "host7"
    await cluster.brokers.look_at(1)
    assert len(cluster.told(2, UpdateMetadataRequest)) == 1


async def test_a_registration_that_is_gone_or_another_is_left_to_the_list_of_brokers():
    cluster = await Cluster().begin([1, 2])
    known = cluster.context.brokers[1]
    await cluster.unregister(1)
    await cluster.brokers.look_at(1)
    await cluster.register(1, registration(7))
    await cluster.brokers.look_at(1)
    assert cluster.context.brokers[1] is known


async def test_a_broker_without_the_features_is_not_let_in():
    cluster = await Cluster().begin([1, 2])
    agreed = FinalizedFeatures(FeatureStatus.ENABLED, {"f": 1})
    await cluster.store.create(paths.FEATURE, agreed.encode())
    await cluster.features.load()
    await cluster.register(4)
    await cluster.brokers.look()
    assert 4 not in cluster.context.brokers


async def test_what_was_being_deleted_waits_for_the_broker_and_goes_on_with_it():
    cluster = await Cluster().begin([1, 2])
    cluster.context.to_delete.add("t")
    await cluster.unregister(2)
    await cluster.brokers.look()
    await cluster.register(2)
    await cluster.brokers.look()
    replica = Replica(cluster.t[0], 2)
    assert cluster.noted.calls == [("failed", [replica]), ("joined", [2]), ("resume", ["t"])]


# Log directories


def answer(broker, *errors):
    response = LeaderAndIsrResponse(error_code=0)
    response.topics = [
        LeaderAndIsrResponse.Topic(
            topic_id=topic_id(topic),
            partition_errors=[
                LeaderAndIsrPartitionError(partition_index=number, error_code=code)
                for number, code in enumerate(errors)
            ],
        )
        for topic in ("t", "unknown")
    ]
    return Answer(broker, 1, None, response), response


FAILED = ErrorCode.KAFKA_STORAGE_ERROR.code


async def test_a_notification_makes_the_broker_be_asked_for_all_it_has():
    cluster = await Cluster().begin([1, 2], [2, 3])
    value = LogDirEvent(2).encode()
    await cluster.store.create(paths.LOG_DIR_EVENTS.new, value, is_sequential=True)
    await cluster.log_dirs.look()
    (asked,) = cluster.told(2, LeaderAndIsrRequest)
    assert len(asked.topic_states[0].partition_states) == 2
    assert await cluster.store.children(paths.LOG_DIR_EVENTS.parent) == []


async def test_what_a_broker_has_lost_with_its_disk_is_led_by_others():
    cluster = await Cluster().begin([1, 2], [1, 2])
    await cluster.log_dirs.answered(*answer(1, FAILED, 0))
    assert cluster.leadership(0) == (2, (2,))
    assert cluster.leadership(1) == (1, (1, 2))
    assert cluster.state(1, 0) is ReplicaState.OFFLINE


async def test_a_disk_that_works_again_is_noted():
    cluster = await Cluster().begin([1, 2])
    await cluster.log_dirs.answered(*answer(1, FAILED))
    await cluster.log_dirs.answered(*answer(1, 0))
    assert cluster.context.is_online(1, cluster.t[0])


# Controlled shutdown


async def stopped(cluster, broker):
    epoch = cluster.context.brokers[broker].epoch
    return await shut_down(cluster.machinery, broker, broker_epoch=epoch)


async def test_a_broker_about_to_stop_leads_and_follows_nothing():
    cluster = await Cluster().begin([1, 2], [2, 1], [1])
    assert await stopped(cluster, 1) == ()
    assert cluster.leadership(0) == (2, (2,))
    assert cluster.leadership(1) == (2, (2,))
    assert cluster.leadership(2) == (1, (1,))
    (stop,) = cluster.told(1, StopReplicaRequest)
    states = [state for topic in stop.topic_states for state in topic.partition_states]
    assert [(state.partition_index, state.delete_partition) for state in states] == [(1, False)]


async def test_what_no_other_can_lead_is_told():
    cluster = await Cluster().begin([1, 2])
    await stopped(cluster, 2)
    assert await stopped(cluster, 1) == (cluster.t[0],)


async def test_only_a_registered_broker_in_its_epoch_is_stopped():
    cluster = await Cluster().begin([1, 2])
    with pytest.raises(BrokerNotAvailable):
        await shut_down(cluster.machinery, 9, broker_epoch=1)
    with pytest.raises(StaleBrokerEpoch):
        await shut_down(cluster.machinery, 1, broker_epoch=0)
    assert await shut_down(cluster.machinery, 1, broker_epoch=-1) == ()


def elsewhere(broker):
    """Without the listener by which the others are found."""
    value = registration(broker)
    return replace(value, endpoints=value.endpoints[1:])


async def test_a_broker_without_the_listener_is_as_if_it_were_not_there(caplog):
    cluster = await Cluster().begin([3, 1], [1, 2], brokers=(1, 2))
    await cluster.register(3, elsewhere(3))
    await cluster.register(4)
    await cluster.brokers.look()
    assert set(cluster.channels.epochs) == set(cluster.context.brokers) == {1, 2, 4}
    assert cluster.leadership(0) == (1, (1,))
    (picture,) = cluster.told(4, UpdateMetadataRequest)
    assert [broker.id for broker in picture.live_brokers] == [1, 2, 4]
    await cluster.brokers.look()
    told = [each.getMessage() for each in caplog.records if "listeners" in each.getMessage()]
    assert told == [
        "Broker 3 has not the listeners by which brokers find each other: it is told nothing, "
        "and leads nothing"
    ]


async def test_nor_does_it_keep_a_controller_from_beginning():
    cluster = await Cluster().begin([1, 2], unfound=(3,))
    assert set(cluster.context.brokers) == {1, 2}


async def test_a_broker_that_gets_the_listener_joins_and_leaves_when_it_loses_it():
    cluster = await Cluster().begin([1, 3], brokers=(1, 2))
    await cluster.register(3, elsewhere(3))
    await cluster.brokers.look()
    await cluster.brokers.look_at(3)
    assert 3 not in cluster.context.brokers
    await cluster.store.set(paths.broker(3), registration(3).encode())
    await cluster.brokers.look_at(3)
    assert set(cluster.channels.epochs) == {1, 2, 3}
    assert cluster.state(3) is ReplicaState.ONLINE
    await cluster.store.set(paths.broker(3), elsewhere(3).encode())
    await cluster.brokers.look_at(3)
    assert set(cluster.channels.epochs) == {1, 2}
    assert cluster.state(3) is ReplicaState.OFFLINE


async def test_who_does_not_find_most_of_the_others_takes_them_not_for_dead():
    cluster = await Cluster().begin([1], [2, 3], brokers=(1, 2))
    before = cluster.leadership(1)
    await cluster.store.set(paths.broker(2), elsewhere(2).encode())
    await cluster.register(3, elsewhere(3))
    with pytest.raises(Outnumbered, match="1 of 3"):
        await cluster.brokers.look()
    assert cluster.leadership(1) == before
