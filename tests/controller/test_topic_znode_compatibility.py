"""Topic and config requests write the same bytes as Apache Kafka."""

import pytest

from odradek.controller.store import paths
from odradek.controller.store.base import Create
from odradek.controller.store.data_tree import DataTree
from tests.support.controller_scene import registration
from tests.support.memory_store import MemoryStore
from tests.support.recorded_trees import Normaliser, Recording, names_of_recorded_trees
from tests.support.replayed_requests import ReplayedRequests

REPLAYED_APIS = {"CREATE_TOPICS", "CREATE_PARTITIONS", "INCREMENTAL_ALTER_CONFIGS", "ALTER_CONFIGS"}


class Replay:
    """Applies the requests of a recording to our own store without a controller."""

    def __init__(self):
        self.store = MemoryStore(DataTree())
        self.normaliser = Normaliser()
        self.requests = ReplayedRequests(self.store)

    async def open(self):
        await self.store.open_session()
        await self.store.multi([*map(Create, paths.with_parents(paths.PERSISTENT_ROOTS))])

    async def apply_step(self, step):
        """Apply the step. Return whether it was a successful topic or config request."""
        arguments = step.arguments
        match step.operation, arguments.get("api"):
            case "start_broker", _:
                node = registration(arguments["broker"], rack=arguments.get("rack"))
                await self.store.create(paths.broker(arguments["broker"]), node.encode())
                self.requests.knows_ids = arguments.get("protocol", "3.9") == "3.9"
            case "stop_broker" | "kill_broker", _:
                await self.store.delete(paths.broker(arguments["broker"]))
            case "ask", name if name in REPLAYED_APIS and succeeded(step):
                return await self.requests.ask(step)
        return False

    async def value(self, path):
        node = await self.store.get(path)
        return self.normaliser.value(path, node.value)


def succeeded(step):
    (results,) = (field for field in step.answer.values() if isinstance(field, list))
    return {result["errorCode"] for result in results} == {0}


def written_by_requests(step):
    """The topic and config writes of a request, without those of the controller."""
    for kind, path, value, *_ in step.writes:
        match path.split("/")[1:]:
            case ["brokers", "topics", _] | ["config", _, _] if kind != "delete":
                yield path, value.encode()


@pytest.mark.parametrize("name", names_of_recorded_trees())
async def test_requests_write_the_bytes_that_kafka_writes(name):
    replay = Replay()
    await replay.open()
    compared = 0
    for step in Recording.load(name).steps:
        if step.arguments.get("api") in {"DELETE_TOPICS", "ALTER_PARTITION_REASSIGNMENTS"}:
            break
        if await replay.apply_step(step):
            for path, value in written_by_requests(step):
                if not path.startswith(paths.CONFIG_CHANGES.create_path):
                    assert await replay.value(path) == value, step.name
                    compared += 1
    assert compared > 0
