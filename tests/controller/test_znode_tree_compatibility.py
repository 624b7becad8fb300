"""After each step of a recording our znode tree equals that of Apache Kafka.

The test compares every znode: its value to the byte, its version and whether it is ephemeral.
``Normaliser`` masks times, ports, topic ids and cluster ids, which differ between clusters.
The versions of reassigned topics and of /admin/reassign_partitions are not compared: Kafka
reassigns one partition after the other, and we reassign all at once.
"""

import pytest

from odradek.controller.registration import BrokerIdentity, create_or_get_cluster_id
from odradek.controller.replica_leader_elections import ElectionType
from odradek.controller.store import paths
from odradek.controller.store.payloads.broker import (
    BrokerRegistration,
    Endpoint,
    SecurityProtocol,
)
from odradek.controller.store.payloads.notifications import LogDirEvent
from odradek.protocol.types import TopicPartition
from tests.support.controlled_cluster import ControlledCluster
from tests.support.followers import Followers
from tests.support.left_trees import shown_tree
from tests.support.recorded_trees import (
    Normaliser,
    Recording,
    content_of,
    names_of_recorded_trees,
)
from tests.support.replayed_requests import ReplayedRequests

#: An inter-broker protocol version without topic ids and AlterPartition.
OLD_PROTOCOL = "2.6"
PLAINTEXT = "PLAINTEXT"
HOSTS = ["127.0.0.1", "localhost"]


class ReplayedCluster(ControlledCluster):
    """A cluster whose brokers register as the recorded brokers did."""

    def __init__(self, stores):
        super().__init__(stores, auto_leader_rebalance_enable=False)
        self.registrations = {}

    def identity(self, broker):
        return BrokerIdentity(broker, self.registrations[broker], PLAINTEXT)


class Replay:
    """Applies the operations of a recording to our own cluster."""

    def __init__(self, cluster, store):
        self.cluster = cluster
        self.store = store
        self.followers = Followers(cluster)
        self.requests = ReplayedRequests(store)
        self.normaliser = Normaliser()
        self.reassigned = set()

    async def apply_step(self, step):
        self._set_election_winner(step.controller)
        await self._apply(step)
        await self._allocate_producer_ids(step)
        self._record_reassigned(step)
        expected = self.comparable(step.tree)

        async def is_equal():
            return await self.tree() == expected

        try:
            await self.followers.until(is_equal)
        except TimeoutError:
            assert (step.name, differences(await self.tree(), expected)) == (step.name, {})

    def _set_election_winner(self, winner):
        """Let only this broker win the next election."""
        for broker, controller in self.cluster.controllers.items():
            controller_znode = controller._elector._controller_znode
            if broker == winner:
                vars(controller_znode).pop("register_controller_and_increment_epoch", None)
            else:
                controller_znode.register_controller_and_increment_epoch = lose_election

    async def tree(self):
        roots = [f"/{name}" for name in await self.store.get_children("/")]
        nodes = await shown_tree(self.store, *roots)
        return self.comparable(
            {
                path: self.normaliser.node(
                    path, node.value, is_ephemeral=node.is_ephemeral, version=node.version
                )
                for path, node in nodes.items()
            }
        )

    def comparable(self, tree):
        versions = {
            path: 0 if path in self.reassigned else node.version for path, node in tree.items()
        }
        return {
            path: (node.value, node.is_ephemeral, versions[path]) for path, node in tree.items()
        }

    def _record_reassigned(self, step):
        for path, content in written_contents(step):
            match content:
                case {"adding_replicas": adding, "removing_replicas": removing}:
                    if adding or removing:
                        self.reassigned.update((path, paths.REASSIGN_PARTITIONS))

    async def _apply(self, step):
        store, arguments = self.store, step.arguments
        match step.operation:
            case "create_node":
                await store.create(arguments["path"], arguments["value"].encode())
            case "delete_node":
                await store.delete(arguments["path"])
            case "fail_log_dir":
                await self._fail_log_dir(arguments["broker"], step.answer["partitions"])
            case "ask":
                if not await self.requests.ask(step):
                    await self._send_request(arguments["api"], arguments["request"])
            case "start_broker":
                await self._start(**arguments)
            case operation:
                await self._stop_or_pause(operation, arguments["broker"])

    async def _start(self, broker, rack=None, listeners=(PLAINTEXT,), protocol="3.9", log_dirs=1):
        self.requests.knows_ids = self.followers.asks = protocol != OLD_PROTOCOL
        endpoints = [
            Endpoint(listener, host, 9092 + number, SecurityProtocol.PLAINTEXT)
            for number, (listener, host) in enumerate(zip(listeners, HOSTS, strict=False))
        ]
        self.cluster.registrations[broker] = BrokerRegistration(tuple(endpoints), rack)
        await self.cluster.start(broker, inter_broker_protocol_version=protocol)
        await create_or_get_cluster_id(self.store, "ours")

    async def _stop_or_pause(self, operation, broker):
        cluster = self.cluster
        match operation:
            case "stop_broker":
                epoch = cluster.controllers[broker].broker_epoch
                await cluster.controller.controlled_shutdown(broker, broker_epoch=epoch)
                await cluster.kill(broker)
            case "kill_broker":
                self.followers.paused.discard(broker)
                await cluster.kill(broker)
            case "pause_broker":
                self.followers.paused.add(broker)
            case "resume_broker":
                self.followers.paused.remove(broker)
            case _:
                assert operation == "repair_log_dirs", operation

    async def _fail_log_dir(self, broker, partitions):
        simulated = self.cluster.brokers[broker]
        for name in partitions:
            topic, _, number = name.rpartition("-")
            simulated.offline.add(TopicPartition(topic, int(number)))
        event = LogDirEvent(broker).encode()
        store = self.cluster.sessions[broker]
        await store.create(paths.LOG_DIR_EVENTS.create_path, event, is_sequential=True)

    async def _send_request(self, api, request):
        match api:
            case "ELECT_LEADERS":
                await self._elect(request)
            case "ALTER_PARTITION_REASSIGNMENTS":
                await self._reassign(request)
            case _:
                assert api == "INIT_PRODUCER_ID"

    async def _allocate_producer_ids(self, step):
        """Allocate the recorded blocks: brokers do so when theirs is used up, old ones at start."""
        for path, content in written_contents(step):
            if path == paths.PRODUCER_ID_BLOCK and content:
                await self.cluster.until(lambda: self.cluster.controller_id is not None)
                broker = content["broker"]
                epoch = self.cluster.controllers[broker].broker_epoch
                await self.cluster.controller.allocate_producer_ids(broker, broker_epoch=epoch)

    async def _elect(self, request):
        partitions = [
            TopicPartition(topic["topic"], number)
            for topic in request["topicPartitions"]
            for number in topic["partitions"]
        ]
        kind = ElectionType(request["electionType"])
        await self.cluster.controller.elect_leaders(kind, partitions)

    async def _reassign(self, request):
        targets = {
            TopicPartition(topic["name"], partition["partitionIndex"]): partition["replicas"]
            for topic in request["topics"]
            for partition in topic["partitions"]
        }
        await self.cluster.controller.alter_partition_reassignments(
            {
                partition: replicas if replicas is None else tuple(replicas)
                for partition, replicas in targets.items()
            }
        )


async def lose_election():
    return None


def written_contents(step):
    """The path and content of each write."""
    for operation, path, value, *_ in step.writes:
        if operation != "delete":
            yield path, content_of((value or "").encode())


def differences(ours, theirs):
    return {
        path: (ours.get(path, "absent"), theirs.get(path, "absent"))
        for path in ours | theirs
        if path not in ours or path not in theirs or ours[path] != theirs[path]
    }


@pytest.mark.parametrize("name", names_of_recorded_trees())
async def test_znode_tree_after_every_recorded_step_equals_kafkas(name, stores):
    recording = Recording.load(name)
    async with ReplayedCluster(stores) as cluster:
        replay = Replay(cluster, await cluster.open_outside())
        for step in recording.steps:
            await replay.apply_step(step)
