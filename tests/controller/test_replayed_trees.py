"""After each step of a recording our controller has written what Apache Kafka's had."""

from dataclasses import replace

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.preferred_leaders import ElectionKind
from odradek.controller.store import paths
from odradek.controller.store.base import Children, Create, Get, Node
from odradek.controller.store.payloads.notifications import LogDirEvent
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.protocol.types import TopicPartition
from tests.support.controlled_cluster import ControlledCluster
from tests.support.followers import Followers
from tests.support.recorded_trees import Normaliser, Recording, names_of_recorded_trees

#: What a controller writes; of brokers' nodes it is only told whether they are there.
ROOTS = (
    "/admin",
    "/brokers/topics",
    "/controller",
    "/controller_epoch",
    "/feature",
    "/isr_change_notification",
    "/log_dir_event_notification",
)
#: Of brokers that know neither topic ids nor AlterPartition.
OLD_PROTOCOL = "2.6"
SEEN = (*ROOTS, "/brokers/ids/")


class Replay:
    """The operations of a recording, done to a cluster of our own."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.followers = Followers(cluster)
        self.normaliser = Normaliser()
        self.knows_topic_ids = True

    async def follow(self, step):
        self._let_win(step.controller)
        await self._operate(step)
        expected = comparable(step.tree)

        async def is_there():
            return await self.tree() == expected

        try:
            await self.followers.until(is_there)
        except TimeoutError:
            assert (step.name, differences(await self.tree(), expected)) == (step.name, {})

    def _let_win(self, winner):
        """If it comes to an election."""
        for broker, controller in self.cluster.controllers.items():
            election = controller._candidate._election
            if broker == winner:
                vars(election).pop("stand", None)
            else:
                election.stand = abstain

    async def tree(self):
        store = self.cluster.any_session
        found = {}
        level = ["/brokers/ids", *ROOTS]
        while level:
            operations = [each(path) for path in level for each in (Get, Children)]
            outcomes = await store.run(operations)
            below = []
            for path, node, names in zip(level, outcomes[::2], outcomes[1::2], strict=True):
                if isinstance(node, Node) and isinstance(names, list):
                    below += [f"{path}/{name}" for name in names]
                    found[path] = self.normaliser.node(
                        path,
                        node.value,
                        is_ephemeral=bool(node.stat.ephemeral_owner),
                        version=node.stat.version,
                    )
            level = below
        return comparable(found)

    async def _operate(self, step):
        store, arguments = self.cluster.any_session, step.arguments
        match step.operation:
            case "create_node":
                await store.create(arguments["path"], arguments["value"].encode())
            case "delete_node":
                await store.delete(arguments["path"])
            case "fail_log_dir":
                await self._fail_log_dir(arguments["broker"], step.answer["partitions"])
            case "ask":
                await self._ask(arguments["api"], arguments["request"], step)
            case "start_broker":
                await self._start(arguments["broker"], arguments.get("protocol", "3.9"))
            case operation:
                await self._fare(operation, arguments["broker"])

    async def _start(self, broker, protocol):
        self.knows_topic_ids = self.followers.asks = protocol != OLD_PROTOCOL
        await self.cluster.start(broker, inter_broker_protocol_version=protocol)

    async def _fare(self, operation, broker):
        cluster = self.cluster
        match operation:
            case "stop_broker":
                epoch = cluster.controllers[broker].broker_epoch
                await cluster.controller.shut_down(broker, broker_epoch=epoch)
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
        for each in partitions:
            topic, _, number = each.rpartition("-")
            simulated.offline.add(TopicPartition(topic, int(number)))
        event = LogDirEvent(broker).encode()
        store = self.cluster.sessions[broker]
        await store.create(paths.LOG_DIR_EVENTS.new, event, is_sequential=True)

    async def _ask(self, api, request, step):
        match api:
            case "CREATE_PARTITIONS":
                for topic in request["topics"]:
                    await self._grow(topic["name"], step)
            case "DELETE_TOPICS":
                for topic in request["topicNames"]:
                    await self.cluster.any_session.create(paths.topic_to_delete(topic))
            case "ELECT_LEADERS":
                await self._elect(request)
            case "ALTER_PARTITION_REASSIGNMENTS":
                await self._reassign(request)
            case _:
                await self._create_as_in(step)

    async def _elect(self, request):
        partitions = [
            TopicPartition(topic["topic"], number)
            for topic in request["topicPartitions"]
            for number in topic["partitions"]
        ]
        kind = ElectionKind(request["electionType"])
        await self.cluster.controller.elect_leaders(kind, partitions)

    async def _reassign(self, request):
        targets = {
            TopicPartition(topic["name"], each["partitionIndex"]): each["replicas"]
            for topic in request["topics"]
            for each in topic["partitions"]
        }
        await self.cluster.controller.alter_reassignments(
            {each: at if at is None else tuple(at) for each, at in targets.items()}
        )

    async def _create_as_in(self, step):
        """Topics, by request or because something was looked for that is kept in them."""
        for operation, path, *_ in step.writes:
            if operation == "create" and path.rpartition("/")[0] == paths.TOPICS:
                await self._create(paths.topic_of(path), step)

    async def _create(self, name, step):
        config = paths.topic_config(name).path
        topic_id = self.cluster._new_topic_id() if self.knows_topic_ids else None
        node = TopicAssignment(placed(name, step), topic_id)
        await self.cluster.any_session.multi(
            [Create(config, step.tree[config].value), Create(paths.topic(name), node.encode())]
        )

    async def _grow(self, name, step):
        path = paths.topic(name)
        value, _ = await self.cluster.any_session.get(path)
        node = replace(TopicAssignment.decode(value), partitions=placed(name, step))
        await self.cluster.any_session.set(path, node.encode())


async def abstain():
    return None


def placed(name, step):
    return {number: Assignment(tuple(at)) for number, at in step.assignment(name).items()}


def comparable(tree):
    return {path: seen(path, node) for path, node in tree.items() if path.startswith(SEEN)}


def seen(path, node):
    """Ports differ; Kafka moves one partition after the other, and so writes more often."""
    if path.startswith("/brokers/ids/"):
        return None
    is_written_once = path.count("/") == 3 or path == "/admin/reassign_partitions"
    return replace(node, version=0) if is_written_once else node


def differences(ours, theirs):
    return {
        path: (ours.get(path, "absent"), theirs.get(path, "absent"))
        for path in ours | theirs
        if path not in ours or path not in theirs or ours[path] != theirs[path]
    }


@pytest.mark.parametrize("name", names_of_recorded_trees())
async def test_what_is_written_is_what_kafka_wrote(name, stores):
    recording = Recording.load(name)
    async with ControlledCluster(stores, auto_leader_rebalance_enable=False) as cluster:
        await cluster.open_outside()
        replay = Replay(cluster)
        for step in recording.steps:
            await replay.follow(step)
