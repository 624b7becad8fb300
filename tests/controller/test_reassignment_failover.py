"""A controller fails after any write of a reassignment or deletion. The next one completes it.

Each operation runs once undisturbed, then repeatedly: each time the session of the controller
expires one write later. The final znodes and logs equal those of the undisturbed run.
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

#: Has no replicas, so the expiry of its session changes no partition.
CONTROLLER = 8
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Run:
    """A cluster whose controller is broker 8 until it has made ``writes`` writes."""

    def __init__(self, cluster, writes):
        self.cluster = cluster
        self.followers = Followers(cluster)
        self._writes = writes
        self.admin_session = None

    async def begin(self):
        await self.cluster.start(CONTROLLER)
        await self.cluster.until(lambda: self.cluster.controller_id == CONTROLLER)
        await self.cluster.start(1, 2, 3, 4)
        self.admin_session = self.cluster.sessions[1]
        for topic in ("t", "u"):
            await self.admin_session.create(
                paths.topic_config(topic).path, b'{"version":1,"config":{}}'
            )
        await self.cluster.create_topic("t", [1, 2], [2, 1])
        await self.cluster.create_topic("u", [3, 1])
        await self.cluster.until_led({"t-0": 1, "t-1": 2, "u-0": 3})

    def arm_session_expiry(self):
        self.cluster.sessions[CONTROLLER].writes_left = self._writes

    @property
    def lost_session(self):
        return self.cluster.sessions[CONTROLLER].writes_left is None

    async def reassign(self, targets):
        """Retry until the controller responds, as a client does."""
        while True:
            await self.cluster.until(lambda: self.cluster.controller_id is not None)
            try:
                outcomes = await self.cluster.controller.alter_partition_reassignments(targets)
            except NotController:
                continue
            # The reassignment may have succeeded although its response was lost.
            accepted = (type(None), NoReassignmentInProgress)
            assert all(isinstance(outcome, accepted) for outcome in outcomes.values()), outcomes
            return

    async def create_reassignment_znode(self, targets):
        await self.admin_session.create(
            paths.REASSIGN_PARTITIONS, ReassignPartitions(targets).encode()
        )

    async def delete(self, topic):
        await self.admin_session.create(paths.topic_to_delete(topic))

    async def until_in_sync(self, partition, *isr):
        async def is_in_sync():
            state = await self.cluster.state(partition.topic, partition.partition)
            return set(state.isr) == set(isr)

        await self.followers.until(is_in_sync)

    async def wait_for_end(self, expected):
        """Wait until no work is left, and for the expected result if given. Return it."""

        async def is_complete():
            tree, logs_by_broker = await picture(self.admin_session), logs(self.cluster)
            is_finished = is_quiet(tree) and logs_by_broker == expected_logs(tree)
            return is_finished and expected in (None, (tree, logs_by_broker))

        self.followers.lagging.clear()
        await self.followers.until(is_complete)
        return await picture(self.admin_session), logs(self.cluster)


def is_quiet(tree):
    """No reassignment or deletion is in progress, and every replica is in the ISR."""
    admin = [path for path in tree if path.startswith("/admin/")]
    states = {
        TopicPartition(topic, number): tree.get(
            paths.partition_state(TopicPartition(topic, number))
        )
        for topic, number, _ in replicas_in(tree)
    }
    return (
        admin == [paths.DELETE_TOPICS]
        and not any(
            assignment["adding_replicas"] or assignment["removing_replicas"]
            for assignment in topics_in(tree)
        )
        and all(
            (state := states[TopicPartition(topic, number)])
            and state["isr"] == sorted(replicas)
            and state["leader"] in replicas
            for topic, number, replicas in replicas_in(tree)
        )
    )


def expected_logs(tree):
    """The logs that the brokers should have."""
    logs_by_broker = {}
    for topic, number, replicas in replicas_in(tree):
        for broker in replicas:
            logs_by_broker.setdefault(broker, []).append(f"{topic}-{number}")
    return {broker: sorted(partitions) for broker, partitions in logs_by_broker.items()}


def topics_in(tree):
    return (
        assignment
        for path, assignment in tree.items()
        if paths.topic_from_path(path) and path.count("/") == 3
    )


def replicas_in(tree):
    for path, assignment in tree.items():
        if paths.topic_from_path(path) and path.count("/") == 3:
            for number, replicas in assignment["partitions"].items():
                yield paths.topic_from_path(path), int(number), replicas


# Operations


async def by_request(run):
    run.arm_session_expiry()
    await run.reassign({T0: (3, 4), T1: (2, 3), U0: (1, 3)})


async def by_node(run):
    run.arm_session_expiry()
    await run.create_reassignment_znode({T0: (3, 4), T1: (2, 3), U0: (1, 3)})


async def shrunk(run):
    run.arm_session_expiry()
    await run.reassign({T0: (2,), U0: (1,)})


async def cancelled(run):
    run.followers.lagging = {4}
    await run.reassign({T0: (3, 4), T1: (4,)})
    await run.until_in_sync(T0, 1, 2, 3)
    run.arm_session_expiry()
    await run.reassign({T0: None, T1: None})


async def replaced(run):
    run.followers.lagging = {4}
    await run.reassign({T0: (3, 4)})
    await run.until_in_sync(T0, 1, 2, 3)
    run.arm_session_expiry()
    await run.reassign({T0: (4, 2)})


async def node_replaced_by_request(run):
    run.followers.lagging = {4}
    await run.create_reassignment_znode({T0: (3, 4), T1: (4, 2)})
    await run.until_in_sync(T0, 1, 2, 3)
    run.arm_session_expiry()
    await run.reassign({T0: (2, 4)})


async def deleted(run):
    run.arm_session_expiry()
    await run.delete("t")


async def all_deleted(run):
    run.arm_session_expiry()
    await run.delete("t")
    await run.delete("u")


async def deleted_while_reassigned(run):
    run.followers.lagging = {4}
    await run.reassign({T0: (3, 4)})
    await run.until_in_sync(T0, 1, 2, 3)
    run.arm_session_expiry()
    await run.delete("t")


async def outcome(operation, writes=None, expected=None):
    """The final znodes and logs, and whether the controller lost its session."""
    async with ControlledCluster(MemoryStores()) as cluster:
        run = Run(cluster, writes)
        await run.begin()
        await operation(run)
        end = await run.wait_for_end(expected)
        lost_session = run.lost_session
        await cluster.expire(CONTROLLER)
        await cluster.until(lambda: cluster.controller_id not in (None, CONTROLLER))
        assert await run.wait_for_end(end) == end
        return end, lost_session


U = {U0: [3, 1]}


@pytest.mark.parametrize(
    ("operation", "after", "writes_min"),
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
async def test_next_controller_completes_the_operation_after_any_write(
    operation, after, writes_min
):
    expected, _ = await outcome(operation)
    tree, _ = expected
    assert {
        TopicPartition(*partition): replicas for *partition, replicas in replicas_in(tree)
    } == after
    for writes in count():
        end, lost_session = await outcome(operation, writes, expected)
        assert end == expected, writes
        if not lost_session:
            break
    assert writes >= writes_min
