"""Tests of controller/topic_changes.py and controller/deletion_requests.py, on the memory store."""

from odradek.controller.assignment import Assignment
from odradek.controller.deletion_requests import DeletionRequests
from odradek.controller.events import TopicNodesChanged, TopicsChanged
from odradek.controller.partition_state import PartitionState
from odradek.controller.store import paths
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.controller.topic_changes import TopicChanges
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.controller_parts import Events, Noted, machinery_of
from tests.support.controller_scene import EPOCH, controller_scene, topic_id
from tests.support.stores import MemoryStores

NEW_ID = Uuid(b"a new topic's id")


class Topics:
    async def begin(self, *, gives_ids=True, is_enabled=True, brokers=(1, 2, 3)):
        self.store = await MemoryStores().open()
        self.scene = await controller_scene(self.store, brokers=brokers)
        self.context = self.scene.context
        self.events, self.noted = Events(), Noted()
        machinery = machinery_of(self.scene)
        new_id = (lambda: NEW_ID) if gives_ids else None
        self.watches = self.events.watches
        self.changes = TopicChanges(machinery, self.watches, new_id)
        self.requests = DeletionRequests(
            machinery, self.noted, self.watches.deletions, is_enabled=is_enabled
        )
        return self

    async def write(self, name, *assignments, given_id=None, create=True):
        each = [at if isinstance(at, Assignment) else Assignment(tuple(at)) for at in assignments]
        value = TopicAssignment(dict(enumerate(each)), given_id or topic_id(name)).encode()
        if create:
            await self.store.create(paths.topic(name), value)
        else:
            await self.store.set(paths.topic(name), value)

    async def node(self, name):
        return TopicAssignment.decode((await self.store.get(paths.topic(name))).value)

    def leaders(self, name):
        return [self.context.leader(each) for each in self.context.partitions_of(name)]


async def test_everything_that_is_there_is_loaded():
    topics = await Topics().begin()
    moving = Assignment((1, 2, 3), adding=(3,))
    await topics.write("t", [1, 2], moving)
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    for path in paths.with_parents([paths.partition(t0)])[3:]:
        await topics.store.create(path)
    await topics.store.create(paths.partition_state(t0), LeaderAndIsr(2, 5, (2,), EPOCH).encode())
    await topics.changes.load()
    assert topics.context.topic_ids == {"t": topic_id("t")}
    assert topics.context.assignment(t1) == moving
    assert topics.context.reassigning == {t1}
    assert topics.leaders("t") == [2, None]
    assert topics.context.partition_states == {}


async def test_a_new_topic_gets_leaders_and_its_brokers_hear_of_it():
    topics = await Topics().begin()
    await topics.changes.load()
    await topics.write("t", [1, 2], [2, 3])
    assert topics.events.put == [TopicsChanged()]
    await topics.changes.look()
    assert topics.leaders("t") == [1, 2]
    topics.scene.batch.send()
    told = topics.scene.sent.to(2, LeaderAndIsrRequest)
    states = told.topic_states[0].partition_states
    assert [(state.partition_index, state.is_new) for state in states] == [(0, True), (1, True)]


async def test_a_topic_without_living_replicas_waits_for_a_leader():
    topics = await Topics().begin(brokers=[1])
    await topics.write("t", [2])
    await topics.changes.look()
    t0 = TopicPartition("t", 0)
    assert topics.context.partition_state(t0) is PartitionState.NEW
    assert t0 in topics.context.waiting_for_leader


async def test_a_topic_without_id_is_given_one():
    topics = await Topics().begin()
    value = b'{"version":1,"partitions":{"0":[1]}}'
    await topics.store.create(paths.topic("old"), value)
    await topics.changes.look()
    assert topics.context.topic_ids == {"old": NEW_ID}
    assert (await topics.node("old")).topic_id == NEW_ID


async def test_ids_are_not_given_where_brokers_would_not_understand_them():
    topics = await Topics().begin(gives_ids=False)
    value = b'{"version":1,"partitions":{"0":[1]}}'
    await topics.store.create(paths.topic("old"), value)
    await topics.changes.look()
    assert topics.context.topic_ids == {}
    assert (await topics.store.get(paths.topic("old"))).value == value


async def test_a_topic_grows():
    topics = await Topics().begin()
    await topics.write("t", [1, 2])
    await topics.changes.look()
    topics.events.put.clear()
    await topics.write("t", [1, 2], [3, 1], create=False)
    await topics.store.exists("/")
    assert topics.events.put == [TopicNodesChanged()]
    await topics.changes.look_at_changed()
    assert topics.leaders("t") == [1, 3]


async def test_what_is_rewritten_without_growth_changes_nothing():
    topics = await Topics().begin()
    await topics.write("t", [1, 2])
    await topics.changes.look()
    await topics.write("t", [2, 3], create=False)
    await topics.changes.look_at_changed()
    assert topics.context.assignment(TopicPartition("t", 0)) == Assignment((1, 2))


async def test_a_topic_that_is_being_deleted_does_not_grow():
    topics = await Topics().begin()
    await topics.write("t", [1, 2])
    await topics.changes.look()
    topics.context.to_delete.add("t")
    await topics.write("t", [1, 2], [3, 1], create=False)
    await topics.changes.look_at_changed()
    assert (await topics.node("t")).partitions == {0: Assignment((1, 2))}
    assert topics.leaders("t") == [1]


async def test_a_topic_that_could_not_be_read_is_taken_up_when_it_can():
    topics = await Topics().begin()
    await topics.store.create(paths.topic("t"), b"broken")
    await topics.changes.look()
    assert "t" not in topics.context
    await topics.write("t", [1], create=False)
    await topics.changes.look_at_changed()
    assert topics.leaders("t") == [1]


async def test_a_topic_taken_away_by_hand_is_forgotten():
    topics = await Topics().begin()
    await topics.write("t", [1])
    await topics.changes.look()
    await topics.scene.writes.delete_topics(["t"])
    await topics.changes.look_at_changed()
    await topics.changes.look()
    assert "t" not in topics.context


# Deletion


async def asked_for(topics, *names):
    for name in names:
        await topics.store.create(paths.topic_to_delete(name))
    await topics.requests.look()
    return sorted(await topics.store.children(paths.DELETE_TOPICS))


async def test_known_topics_are_deleted_and_unknown_names_taken_away():
    topics = await Topics().begin()
    await topics.write("t", [1])
    await topics.changes.look()
    await asked_for(topics, "t", "unknown")
    assert topics.noted.calls == [("clear away", ["unknown"]), ("request", ["t"])]


async def test_nothing_is_deleted_where_deletion_is_not_enabled():
    topics = await Topics().begin(is_enabled=False)
    await topics.write("t", [1])
    await topics.changes.look()
    assert await asked_for(topics, "t") == []
    assert topics.noted.calls == []
