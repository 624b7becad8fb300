"""Tests of controller/topic_changes.py and topic_deletion_requests.py with the memory store."""

from odradek.controller.events import PartitionModifications, TopicChange
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.controller.topic_changes import TopicChanges
from odradek.controller.topic_deletion_requests import TopicDeletionRequests
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.controller_parts import Events, Noted, machinery_of
from tests.support.controller_scene import EPOCH, controller_scene, topic_id
from tests.support.stores import MemoryStores

NEW_ID = Uuid(b"a new topic's id")


class Topics:
    async def begin(self, *, assigns_ids=True, is_enabled=True, brokers=(1, 2, 3)):
        self.store = await MemoryStores().open()
        self.scene = await controller_scene(self.store, brokers=brokers)
        self.context = self.scene.context
        self.events, self.noted = Events(), Noted()
        services = machinery_of(self.scene)
        new_id = (lambda: NEW_ID) if assigns_ids else None
        self.watches = self.events.watches
        self.changes = TopicChanges(services, self.watches, new_id)
        self.requests = TopicDeletionRequests(
            services, self.noted, self.watches.on_topic_deletion, is_enabled=is_enabled
        )
        return self

    async def write(self, name, *assignments, topic_id_in_node=None, create=True):
        replica_assignments = [
            assignment
            if isinstance(assignment, ReplicaAssignment)
            else ReplicaAssignment(tuple(assignment))
            for assignment in assignments
        ]
        value = TopicAssignment(
            dict(enumerate(replica_assignments)), topic_id_in_node or topic_id(name)
        ).encode()
        if create:
            await self.store.create(paths.topic(name), value)
        else:
            await self.store.set(paths.topic(name), value)

    async def node(self, name):
        return TopicAssignment.decode((await self.store.get(paths.topic(name))).value)

    def leaders(self, name):
        return [
            self.context.leader(partition) for partition in self.context.partitions_for_topic(name)
        ]


async def test_load_reads_topics_reassignments_and_leaders():
    topics = await Topics().begin()
    reassigning = ReplicaAssignment((1, 2, 3), adding_replicas=(3,))
    await topics.write("t", [1, 2], reassigning)
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    for path in paths.with_parents([paths.partition(t0)])[3:]:
        await topics.store.create(path)
    await topics.store.create(paths.partition_state(t0), LeaderAndIsr(2, 5, (2,), EPOCH).encode())
    await topics.changes.load()
    assert topics.context.topic_ids == {"t": topic_id("t")}
    assert topics.context.assignment(t1) == reassigning
    assert topics.context.partitions_being_reassigned == {t1}
    assert topics.leaders("t") == [2, None]
    assert topics.context.partition_states == {}


async def test_new_topic_gets_leaders_and_its_brokers_are_notified():
    topics = await Topics().begin()
    await topics.changes.load()
    await topics.write("t", [1, 2], [2, 3])
    assert topics.events.put == [TopicChange()]
    await topics.changes.process_topic_change()
    assert topics.leaders("t") == [1, 2]
    topics.scene.batch.send_requests_to_brokers()
    request = topics.scene.sent.to(2, LeaderAndIsrRequest)
    states = request.topic_states[0].partition_states
    assert [(state.partition_index, state.is_new) for state in states] == [(0, True), (1, True)]


async def test_topic_without_live_replicas_waits_for_a_leader():
    topics = await Topics().begin(brokers=[1])
    await topics.write("t", [2])
    await topics.changes.process_topic_change()
    t0 = TopicPartition("t", 0)
    assert topics.context.partition_state(t0) is PartitionState.NEW
    assert t0 in topics.context.new_or_offline_partitions


async def test_topic_without_id_gets_one():
    topics = await Topics().begin()
    value = b'{"version":1,"partitions":{"0":[1]}}'
    await topics.store.create(paths.topic("old"), value)
    await topics.changes.process_topic_change()
    assert topics.context.topic_ids == {"old": NEW_ID}
    assert (await topics.node("old")).topic_id == NEW_ID


async def test_topic_ids_are_not_assigned_with_an_old_metadata_version():
    topics = await Topics().begin(assigns_ids=False)
    value = b'{"version":1,"partitions":{"0":[1]}}'
    await topics.store.create(paths.topic("old"), value)
    await topics.changes.process_topic_change()
    assert topics.context.topic_ids == {}
    assert (await topics.store.get(paths.topic("old"))).value == value


async def test_new_partitions_get_leaders():
    topics = await Topics().begin()
    await topics.write("t", [1, 2])
    await topics.changes.process_topic_change()
    topics.events.put.clear()
    await topics.write("t", [1, 2], [3, 1], create=False)
    await topics.store.exists("/")
    assert topics.events.put == [PartitionModifications()]
    await topics.changes.process_partition_modifications()
    assert topics.leaders("t") == [1, 3]


async def test_rewritten_topic_without_new_partitions_changes_nothing():
    topics = await Topics().begin()
    await topics.write("t", [1, 2])
    await topics.changes.process_topic_change()
    await topics.write("t", [2, 3], create=False)
    await topics.changes.process_partition_modifications()
    assert topics.context.assignment(TopicPartition("t", 0)) == ReplicaAssignment((1, 2))


async def test_new_partitions_of_a_topic_being_deleted_are_removed():
    topics = await Topics().begin()
    await topics.write("t", [1, 2])
    await topics.changes.process_topic_change()
    topics.context.topics_to_be_deleted.add("t")
    await topics.write("t", [1, 2], [3, 1], create=False)
    await topics.changes.process_partition_modifications()
    assert (await topics.node("t")).partitions == {0: ReplicaAssignment((1, 2))}
    assert topics.leaders("t") == [1]


async def test_unreadable_topic_is_added_when_it_becomes_readable():
    topics = await Topics().begin()
    await topics.store.create(paths.topic("t"), b"broken")
    await topics.changes.process_topic_change()
    assert "t" not in topics.context
    await topics.write("t", [1], create=False)
    await topics.changes.process_partition_modifications()
    assert topics.leaders("t") == [1]


async def test_topic_removed_from_the_store_is_removed_from_the_context():
    topics = await Topics().begin()
    await topics.write("t", [1])
    await topics.changes.process_topic_change()
    await topics.scene.writes.delete_topics(["t"])
    await topics.changes.process_partition_modifications()
    await topics.changes.process_topic_change()
    assert "t" not in topics.context


# Deletion


async def request_deletions(topics, *names):
    for name in names:
        await topics.store.create(paths.topic_to_delete(name))
    await topics.requests.process_topic_deletion()
    return sorted(await topics.store.get_children(paths.DELETE_TOPICS))


async def test_known_topics_are_deleted_and_unknown_ones_discarded():
    topics = await Topics().begin()
    await topics.write("t", [1])
    await topics.changes.process_topic_change()
    await request_deletions(topics, "t", "unknown")
    assert topics.noted.calls == [("clear away", ["unknown"]), ("request", ["t"])]


async def test_deletion_is_dropped_when_topic_deletion_is_disabled():
    topics = await Topics().begin(is_enabled=False)
    await topics.write("t", [1])
    await topics.changes.process_topic_change()
    assert await request_deletions(topics, "t") == []
    assert topics.noted.calls == []
