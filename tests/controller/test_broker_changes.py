"""Tests of controller/broker_changes.py, offline_replicas.py, log_dirs.py and
controlled_shutdown.py.
"""

from dataclasses import replace

import pytest

from odradek.controller.broker_changes import (
    BrokerChanges,
    BrokerRequirements,
    ListenerMismatch,
    ResumableWork,
)
from odradek.controller.controlled_shutdown import process_controlled_shutdown
from odradek.controller.controller_channel import BrokerResponse
from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.features import ClusterFeatures
from odradek.controller.leader_and_isr import NO_LEADER
from odradek.controller.log_dir_failures import LogDirFailures
from odradek.controller.metadata_version import LATEST
from odradek.controller.offline_replicas import OfflineReplicaHandler
from odradek.controller.registration import BrokerIdentity
from odradek.controller.replica_state import ReplicaState
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
    """Records the broker epoch of each open channel."""

    def __init__(self):
        self.epochs = {}

    def add_broker(self, broker):
        self.epochs[broker.id] = broker.epoch

    def remove_broker(self, broker):
        del self.epochs[broker]


class Cluster:
    """Brokers 1, 2 and 3 with an online topic t of the given assignments."""

    async def begin(self, *assignments, brokers=(1, 2, 3), without_listener=()):
        self.store = await MemoryStores().open()
        self.scene = await controller_scene(self.store, brokers=())
        self.context = self.scene.context
        self.services = machinery_of(self.scene)
        self.events, self.noted, self.channels = Events(), Noted(), Channels()
        watches = self.events.watches
        offline = OfflineReplicaHandler(self.services, self.noted)
        self.features = ClusterFeatures(self.scene.reads, self.scene.writes, LATEST, {})
        self.brokers = BrokerChanges(
            self.services,
            self.channels,
            watches,
            BrokerRequirements(
                self.features, BrokerIdentity(1, registration(1), LISTENER).has_required_listeners
            ),
            offline,
            ResumableWork(self.noted, self.noted),
        )
        self.log_dirs = LogDirFailures(
            self.services, watches.on_log_dir_event_notification, offline
        )
        for broker in brokers:
            await self.register(
                broker,
                registration_without_listener(broker) if broker in without_listener else None,
            )
        await self.brokers.load()
        self.t = await self.scene.add_topic("t", *assignments)
        await TopicChanges(self.services, watches, None)._on_new_partition_creation(self.t)
        self.clear_requests()
        return self

    def clear_requests(self):
        self.scene.batch.send_requests_to_brokers()
        self.scene.sent.requests.clear()
        self.events.put.clear()

    async def register(self, broker, value=None):
        path = paths.broker(broker)
        await self.store.create(path, (value or registration(broker)).encode(), is_ephemeral=True)

    async def unregister(self, broker):
        await self.store.delete(paths.broker(broker))

    def requests_to(self, broker, kind):
        self.scene.batch.send_requests_to_brokers()
        return [
            request
            for receiver, request, _ in self.scene.sent.requests
            if receiver == broker and isinstance(request, kind)
        ]

    def leadership(self, number=0):
        leadership = self.context.partition_leadership_info[self.t[number]]
        return (leadership.leader, leadership.isr)

    def state(self, broker, number=0):
        return self.context.replica_state(PartitionAndReplica(self.t[number], broker))


async def test_load_opens_channels_to_all_registered_brokers():
    cluster = await Cluster().begin([1, 2])
    epochs = {each: cluster.context.brokers[each].epoch for each in (1, 2, 3)}
    assert cluster.channels.epochs == epochs
    assert cluster.context.brokers[1].registration == registration(1)


async def test_failed_leader_is_replaced_by_another_isr_member():
    cluster = await Cluster().begin([1, 2], [2, 3])
    await cluster.unregister(1)
    await cluster.brokers.process_broker_change()
    assert cluster.leadership(0) == (2, (2,))
    assert cluster.leadership(1) == (2, (2, 3))
    assert cluster.state(1) is ReplicaState.OFFLINE
    assert set(cluster.channels.epochs) == {2, 3}
    (request,) = cluster.requests_to(2, LeaderAndIsrRequest)
    assert [state.leader for state in request.topic_states[0].partition_states] == [2]
    (metadata,) = cluster.requests_to(3, UpdateMetadataRequest)
    assert [broker.id for broker in metadata.live_brokers] == [2, 3]


async def test_failed_follower_is_removed_from_isr():
    cluster = await Cluster().begin([1, 2])
    await cluster.unregister(2)
    await cluster.brokers.process_broker_change()
    assert cluster.leadership() == (1, (1,))


async def test_last_isr_member_stays_in_isr_and_leads_again_after_restart():
    cluster = await Cluster().begin([1])
    await cluster.unregister(1)
    await cluster.brokers.process_broker_change()
    assert cluster.leadership() == (NO_LEADER, (1,))
    await cluster.register(1)
    await cluster.brokers.process_broker_change()
    assert cluster.leadership() == (1, (1,))
    assert cluster.state(1) is ReplicaState.ONLINE


async def test_new_broker_receives_full_metadata_and_others_only_the_live_brokers():
    cluster = await Cluster().begin([1, 2], [2, 1], brokers=(1, 2))
    await cluster.register(3)
    await cluster.brokers.process_broker_change()
    (metadata,) = cluster.requests_to(3, UpdateMetadataRequest)
    assert len(metadata.topic_states[0].partition_states) == 2
    assert cluster.requests_to(3, LeaderAndIsrRequest) == []
    (others,) = cluster.requests_to(1, UpdateMetadataRequest)
    assert (len(others.live_brokers), others.topic_states) == (3, [])
    assert cluster.noted.calls == [("joined", [3])]


async def test_broker_with_new_epoch_is_handled_as_failed_and_restarted():
    cluster = await Cluster().begin([1, 2])
    old = cluster.context.brokers[1].epoch
    await cluster.unregister(1)
    await cluster.register(1)
    await cluster.brokers.process_broker_change()
    assert cluster.channels.epochs[1] == cluster.context.brokers[1].epoch > old
    assert cluster.leadership() == (2, (2,))
    assert cluster.state(1) is ReplicaState.ONLINE
    requests = cluster.requests_to(1, UpdateMetadataRequest | LeaderAndIsrRequest)
    assert isinstance(requests[0], UpdateMetadataRequest)
    assert isinstance(requests[1], LeaderAndIsrRequest)
    assert requests[1].broker_epoch == cluster.channels.epochs[1]


async def test_changed_endpoints_are_sent_to_all_brokers():
    cluster = await Cluster().begin([1, 2])
    await cluster.store.set(paths.broker(1), registration(7).encode())
    await cluster.brokers.process_broker_modification(1)
    (request,) = cluster.requests_to(2, UpdateMetadataRequest)
    assert request.live_brokers[0].endpoints[0].host == "host7"
    await cluster.brokers.process_broker_modification(1)
    assert len(cluster.requests_to(2, UpdateMetadataRequest)) == 1


async def test_modification_of_deleted_or_recreated_registration_is_ignored():
    cluster = await Cluster().begin([1, 2])
    known = cluster.context.brokers[1]
    await cluster.unregister(1)
    await cluster.brokers.process_broker_modification(1)
    await cluster.register(1, registration(7))
    await cluster.brokers.process_broker_modification(1)
    assert cluster.context.brokers[1] is known


async def test_broker_without_finalized_features_is_ignored():
    cluster = await Cluster().begin([1, 2])
    finalized = FinalizedFeatures(FeatureStatus.ENABLED, {"f": 1})
    await cluster.store.create(paths.FEATURE, finalized.encode())
    await cluster.features.load()
    await cluster.register(4)
    await cluster.brokers.process_broker_change()
    assert 4 not in cluster.context.brokers


async def test_topic_deletion_fails_with_the_broker_and_resumes_with_it():
    cluster = await Cluster().begin([1, 2])
    cluster.context.topics_to_be_deleted.add("t")
    await cluster.unregister(2)
    await cluster.brokers.process_broker_change()
    await cluster.register(2)
    await cluster.brokers.process_broker_change()
    replica = PartitionAndReplica(cluster.t[0], 2)
    assert cluster.noted.calls == [("failed", [replica]), ("joined", [2]), ("resume", ["t"])]


# Log directories


def leader_and_isr_response(broker, *errors):
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
    return BrokerResponse(broker, 1, None, response), response


FAILED = ErrorCode.KAFKA_STORAGE_ERROR.code


async def test_log_dir_event_sends_all_partitions_of_the_broker():
    cluster = await Cluster().begin([1, 2], [2, 3])
    value = LogDirEvent(2).encode()
    await cluster.store.create(paths.LOG_DIR_EVENTS.create_path, value, is_sequential=True)
    await cluster.log_dirs.process_log_dir_event_notification()
    (request,) = cluster.requests_to(2, LeaderAndIsrRequest)
    assert len(request.topic_states[0].partition_states) == 2
    assert await cluster.store.get_children(paths.LOG_DIR_EVENTS.parent) == []


async def test_replica_with_storage_error_goes_offline_and_loses_leadership():
    cluster = await Cluster().begin([1, 2], [1, 2])
    await cluster.log_dirs.process_leader_and_isr_response(*leader_and_isr_response(1, FAILED, 0))
    assert cluster.leadership(0) == (2, (2,))
    assert cluster.leadership(1) == (1, (1, 2))
    assert cluster.state(1, 0) is ReplicaState.OFFLINE


async def test_replica_without_storage_error_is_online_again():
    cluster = await Cluster().begin([1, 2])
    await cluster.log_dirs.process_leader_and_isr_response(*leader_and_isr_response(1, FAILED))
    await cluster.log_dirs.process_leader_and_isr_response(*leader_and_isr_response(1, 0))
    assert cluster.context.is_replica_online(1, cluster.t[0])


# Controlled shutdown


async def shut_down(cluster, broker):
    epoch = cluster.context.brokers[broker].epoch
    return await process_controlled_shutdown(cluster.services, broker, broker_epoch=epoch)


async def test_controlled_shutdown_moves_leaders_and_stops_followers():
    cluster = await Cluster().begin([1, 2], [2, 1], [1])
    assert await shut_down(cluster, 1) == ()
    assert cluster.leadership(0) == (2, (2,))
    assert cluster.leadership(1) == (2, (2,))
    assert cluster.leadership(2) == (1, (1,))
    (stop_replica,) = cluster.requests_to(1, StopReplicaRequest)
    states = [state for topic in stop_replica.topic_states for state in topic.partition_states]
    assert [(state.partition_index, state.delete_partition) for state in states] == [(1, False)]


async def test_controlled_shutdown_returns_partitions_without_another_leader():
    cluster = await Cluster().begin([1, 2])
    await shut_down(cluster, 2)
    assert await shut_down(cluster, 1) == (cluster.t[0],)


async def test_controlled_shutdown_of_unknown_broker_or_stale_epoch_is_rejected():
    cluster = await Cluster().begin([1, 2])
    with pytest.raises(BrokerNotAvailable):
        await process_controlled_shutdown(cluster.services, 9, broker_epoch=1)
    with pytest.raises(StaleBrokerEpoch):
        await process_controlled_shutdown(cluster.services, 1, broker_epoch=0)
    assert await process_controlled_shutdown(cluster.services, 1, broker_epoch=-1) == ()


def registration_without_listener(broker):
    """A registration without the inter-broker listener."""
    value = registration(broker)
    return replace(value, endpoints=value.endpoints[1:])


async def test_broker_without_inter_broker_listener_is_ignored(caplog):
    cluster = await Cluster().begin([3, 1], [1, 2], brokers=(1, 2))
    await cluster.register(3, registration_without_listener(3))
    await cluster.register(4)
    await cluster.brokers.process_broker_change()
    assert set(cluster.channels.epochs) == set(cluster.context.brokers) == {1, 2, 4}
    assert cluster.leadership(0) == (1, (1,))
    (metadata,) = cluster.requests_to(4, UpdateMetadataRequest)
    assert [broker.id for broker in metadata.live_brokers] == [1, 2, 4]
    await cluster.brokers.process_broker_change()
    logged = [each.getMessage() for each in caplog.records if "listeners" in each.getMessage()]
    assert logged == [
        "Ignoring broker 3: it does not have the listeners that brokers use to connect to each "
        "other. It receives no requests and leads no partitions"
    ]


async def test_broker_without_inter_broker_listener_does_not_stop_the_load():
    cluster = await Cluster().begin([1, 2], without_listener=(3,))
    assert set(cluster.context.brokers) == {1, 2}


async def test_broker_joins_and_leaves_with_the_inter_broker_listener():
    cluster = await Cluster().begin([1, 3], brokers=(1, 2))
    await cluster.register(3, registration_without_listener(3))
    await cluster.brokers.process_broker_change()
    await cluster.brokers.process_broker_modification(3)
    assert 3 not in cluster.context.brokers
    await cluster.store.set(paths.broker(3), registration(3).encode())
    await cluster.brokers.process_broker_modification(3)
    assert set(cluster.channels.epochs) == {1, 2, 3}
    assert cluster.state(3) is ReplicaState.ONLINE
    await cluster.store.set(paths.broker(3), registration_without_listener(3).encode())
    await cluster.brokers.process_broker_modification(3)
    assert set(cluster.channels.epochs) == {1, 2}
    assert cluster.state(3) is ReplicaState.OFFLINE


async def test_controller_that_cannot_reach_most_brokers_raises_and_changes_nothing():
    cluster = await Cluster().begin([1], [2, 3], brokers=(1, 2))
    before = cluster.leadership(1)
    await cluster.store.set(paths.broker(2), registration_without_listener(2).encode())
    await cluster.register(3, registration_without_listener(3))
    with pytest.raises(ListenerMismatch, match="1 of 3"):
        await cluster.brokers.process_broker_change()
    assert cluster.leadership(1) == before
