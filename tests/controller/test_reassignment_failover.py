"""A controller ends after any of its writes to reassign or delete; the next one finishes it.

Each is done once undisturbed and then again and again, each time one write further before the
session of the controller is over.  The tree and the brokers' disks end as they did undisturbed.
"""

from itertools import count

import pytest

from odradek.controller.store import paths
from odradek.controller.store.payloads.admin import ReassignPartitions
from odradek.protocol.errors import NoReassignmentInProgress, NotController
from odradek.protocol.types import TopicPartition
from tests.support.controlled_cluster import ControlledCluster
from tests.support.followers import Followers, logs, picture
from tests.support.stores import MemoryStores

#: Has no replicas, so that nothing else changes when its session ends.
CONTROLLER = 8
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Run:
    """A cluster of which broker 8 is the controller, until it has written ``writes`` times."""

    def __init__(self, cluster, writes):
        self.cluster = cluster
        self.followers = Followers(cluster)
        self._writes = writes
        self.tool = None

    async def begin(self):
        await self.cluster.start(CONTROLLER)
        await self.cluster.until(lambda: self.cluster.controller_id == CONTROLLER)
        await self.cluster.start(1, 2, 3, 4)
        self.tool = self.cluster.sessions[1]
        for topic in ("t", "u"):
            await self.tool.create(paths.topic_config(topic).path, b'{"version":1,"config":{}}')
        await self.cluster.create_topic("t", [1, 2], [2, 1])
        await self.cluster.create_topic("u", [3, 1])
        await self.cluster.until_led({"t-0": 1, "t-1": 2, "u-0": 3})

    def disturb(self):
        self.cluster.sessions[CONTROLLER].writes_left = self._writes

    @property
    def was_disturbed(self):
        return self.cluster.sessions[CONTROLLER].writes_left is None

    async def reassign(self, targets):
        """As a client does: until it is answered."""
        while True:
            await self.cluster.until(lambda: self.cluster.controller_id is not None)
            try:
                outcomes = await self.cluster.controller.alter_reassignments(targets)
            except NotController:
                continue
            # It may have been done, and the answer lost.
            done = (type(None), NoReassignmentInProgress)
            assert all(isinstance(outcome, done) for outcome in outcomes.values()), outcomes
            return

    async def ask_by_node(self, targets):
        await self.tool.create(paths.REASSIGN_PARTITIONS, ReassignPartitions(targets).encode())

    async def delete(self, topic):
        await self.tool.create(paths.topic_to_delete(topic))

    async def until_in_sync(self, partition, *isr):
        async def is_so():
            state = await self.cluster.state(partition.topic, partition.partition)
            return set(state.isr) == set(isr)

        await self.followers.until(is_so)

    async def end(self, expected):
        """The tree and the disks when all is quiet; as expected, if that is known."""

        async def is_so():
            tree, disks = await picture(self.tool), logs(self.cluster)
            is_over = is_quiet(tree) and disks == disks_of(tree)
            return is_over and expected in (None, (tree, disks))

        self.followers.lagging.clear()
        await self.followers.until(is_so)
        return await picture(self.tool), logs(self.cluster)


def is_quiet(tree):
    """Nothing is under way, and everybody is in sync."""
    admin = [path for path in tree if path.startswith("/admin/")]
    states = {
        TopicPartition(topic, number): tree.get(
            paths.partition_state(TopicPartition(topic, number))
        )
        for topic, number, _ in replicas_in(tree)
    }
    return (
        admin == [paths.DELETE_TOPICS]
        and not any(at["adding_replicas"] or at["removing_replicas"] for at in topics_in(tree))
        and all(
            (state := states[TopicPartition(topic, number)])
            and state["isr"] == sorted(replicas)
            and state["leader"] in replicas
            for topic, number, replicas in replicas_in(tree)
        )
    )


def disks_of(tree):
    """What brokers should have."""
    disks = {}
    for topic, number, replicas in replicas_in(tree):
        for broker in replicas:
            disks.setdefault(broker, []).append(f"{topic}-{number}")
    return {broker: sorted(partitions) for broker, partitions in disks.items()}


def topics_in(tree):
    return (at for path, at in tree.items() if paths.topic_of(path) and path.count("/") == 3)


def replicas_in(tree):
    for path, at in tree.items():
        if paths.topic_of(path) and path.count("/") == 3:
            for number, replicas in at["partitions"].items():
                yield paths.topic_of(path), int(number), replicas


# What is done


async def by_request(run):
    run.disturb()
    await run.reassign({T0: (3, 4), T1: (2, 3), U0: (1, 3)})


async def by_node(run):
    run.disturb()
    await run.ask_by_node({T0: (3, 4), T1: (2, 3), U0: (1, 3)})


async def shrunk(run):
    run.disturb()
    await run.reassign({T0: (2,), U0: (1,)})


async def cancelled(run):
    run.followers.lagging = {4}
    await run.reassign({T0: (3, 4), T1: (4,)})
    await run.until_in_sync(T0, 1, 2, 3)
    run.disturb()
    await run.reassign({T0: None, T1: None})


async def replaced(run):
    run.followers.lagging = {4}
    await run.reassign({T0: (3, 4)})
    await run.until_in_sync(T0, 1, 2, 3)
    run.disturb()
    await run.reassign({T0: (4, 2)})


async def node_replaced_by_request(run):
    run.followers.lagging = {4}
    await run.ask_by_node({T0: (3, 4), T1: (4, 2)})
    await run.until_in_sync(T0, 1, 2, 3)
    run.disturb()
    await run.reassign({T0: (2, 4)})


async def deleted(run):
    run.disturb()
    await run.delete("t")


async def all_deleted(run):
    run.disturb()
    await run.delete("t")
    await run.delete("u")


async def deleted_while_reassigned(run):
    run.followers.lagging = {4}
    await run.reassign({T0: (3, 4)})
    await run.until_in_sync(T0, 1, 2, 3)
    run.disturb()
    await run.delete("t")


async def outcome(operation, writes=None, expected=None):
    """The tree and the disks, and whether the controller was disturbed."""
    async with ControlledCluster(MemoryStores()) as cluster:
        run = Run(cluster, writes)
        await run.begin()
        await operation(run)
        end = await run.end(expected)
        was_disturbed = run.was_disturbed
        await cluster.expire(CONTROLLER)
        await cluster.until(lambda: cluster.controller_id not in (None, CONTROLLER))
        assert await run.end(end) == end
        return end, was_disturbed


U = {U0: [3, 1]}


@pytest.mark.parametrize(
    ("operation", "after", "writes_least"),
    [
        (by_request, {T0: [3, 4], T1: [2, 3], U0: [1, 3]}, 12),
        (by_node, {T0: [3, 4], T1: [2, 3], U0: [1, 3]}, 14),
        (shrunk, {T0: [2], T1: [2, 1], U0: [1]}, 6),
        (cancelled, {T0: [1, 2], T1: [2, 1], **U}, 4),
        (replaced, {T0: [4, 2], T1: [2, 1], **U}, 4),
        (node_replaced_by_request, {T0: [2, 4], T1: [4, 2], **U}, 5),
        (deleted, U, 10),
        (all_deleted, {}, 18),
        (deleted_while_reassigned, U, 12),
    ],
)
async def test_a_controller_that_ends_after_any_write_leaves_what_the_next_one_finishes(
    operation, after, writes_least
):
    expected, _ = await outcome(operation)
    tree, _ = expected
    assert {TopicPartition(*at): replicas for *at, replicas in replicas_in(tree)} == after
    for writes in count():
        end, was_disturbed = await outcome(operation, writes, expected)
        assert end == expected, writes
        if not was_disturbed:
            break
    assert writes >= writes_least
