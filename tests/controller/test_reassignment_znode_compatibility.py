"""Reassignments write the assignments, leaders and ISRs that Apache Kafka writes.

ISR changes by leaders come from the recording: a partition state written with another ISR in the
same leader epoch. Our own code does everything else.
"""

from odradek.controller.reassignment_requests import build_alter_response, parse_alter_request
from odradek.controller.store import paths
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.registry import api
from odradek.protocol.types import TopicPartition
from tests.support.kafka_json import from_json, to_json
from tests.support.moving_scene import moving_bench
from tests.support.recorded_trees import Recording, content_of

#: Fields whose values differ between clusters.
CLUSTER_SPECIFIC_FIELDS = {"topic_id", "controller_epoch"}


class Replay:
    def __init__(self, bench):
        self.bench = bench
        self._states = {}

    async def apply_step(self, step):
        await self._apply(step.operation, step.arguments, step.answer)
        for kind, path, value, *_ in step.writes:
            partition = partition_of(path)
            if partition is not None and kind != "delete":
                state = content_of(value.encode())
                before = self._states.get(partition)
                self._states[partition] = state
                if before and before["leader_epoch"] == state["leader_epoch"]:
                    await self.bench.in_sync(partition, *state["isr"])

    async def _apply(self, operation, arguments, expected_response):
        match operation:
            case "start_broker":
                await self.bench.join(arguments["broker"])
            case "kill_broker":
                await self.bench.lose(arguments["broker"])
            case "ask" if arguments["api"] == "CREATE_TOPICS":
                for topic in arguments["request"]["topics"]:
                    replicas = [assignment["brokerIds"] for assignment in topic["assignments"]]
                    await self.bench.add_topic(topic["name"], *replicas)
            case "ask":
                await self._alter(arguments, expected_response)
            case "delete_node":
                assert arguments["path"] == paths.CONTROLLER
                await self.bench.reassignments.start()
            case "create_node":
                await self.bench.store.create(arguments["path"], arguments["value"].encode())
                await self.bench.reassignments.process_zk_partition_reassignment()

    async def _alter(self, arguments, expected_response):
        request = api(ApiKey[arguments["api"]]).request
        message = from_json(request, arguments["version"], arguments["request"])
        outcomes = await self.bench.reassignments.alter_partition_reassignments(
            parse_alter_request(message)
        )
        assert to_json(build_alter_response(outcomes), arguments["version"]) == expected_response

    async def znodes(self, recorded):
        """Our contents of the recorded znodes. Also checks whether a reassignment znode exists."""
        contents = {}
        for path in recorded:
            node = await self.bench.store.get(path)
            contents[path] = comparable(content_of(node.value))
        reassignment = await self.bench.store.exists(paths.REASSIGN_PARTITIONS)
        assert (reassignment is not None) == (paths.REASSIGN_PARTITIONS in recorded)
        return contents


def partition_of(path):
    match path.split("/")[1:]:
        case ["brokers", "topics", topic, "partitions", number, "state"]:
            return TopicPartition(topic, int(number))
    return None


def is_compared(path):
    is_topic = path.startswith(f"{paths.TOPICS}/") and path.count("/") == 3
    return is_topic or partition_of(path) is not None or path == paths.REASSIGN_PARTITIONS


def comparable(content):
    return {key: value for key, value in content.items() if key not in CLUSTER_SPECIFIC_FIELDS}


async def test_znodes_after_every_recorded_step_equal_kafkas():
    bench = await moving_bench(brokers=())
    replay = Replay(bench)
    for step in Recording.load("reassignment").steps:
        await replay.apply_step(step)
        recorded = {
            path: comparable(node.content) for path, node in step.tree.items() if is_compared(path)
        }
        assert await replay.znodes(recorded) == recorded, step.name
