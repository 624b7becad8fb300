"""Requests about topics and configurations write, to the byte, what Apache Kafka writes."""

from random import Random

import pytest

from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.config_alterations import altered
from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.store import paths
from odradek.controller.store.base import Create
from odradek.controller.store.tree import Tree
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_requests import BY_DEFAULT, Growth, NewTopic, TopicDefaults
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.registry import api
from tests.support.controller_scene import registration
from tests.support.kafka_json import from_json
from tests.support.memory_store import MemoryStore
from tests.support.recorded_trees import Normaliser, Recording, names_of_recorded_trees
from tests.support.topic_entries import topic_entry

BROKER_RESOURCE = 4
ASKED = {"CREATE_TOPICS", "CREATE_PARTITIONS", "INCREMENTAL_ALTER_CONFIGS", "ALTER_CONFIGS"}


class Replay:
    """The requests of a recording on a tree of our own, where nobody acts on what is written."""

    def __init__(self):
        self.store = MemoryStore(Tree())
        self.normaliser = Normaliser()
        random = Random(1)
        self.configs = ConfigAdmin(self.store, server=lambda: ())
        self.knows_ids = True
        self.topics = TopicAdmin(
            self.store,
            MetadataReads(self.store),
            defaults=TopicDefaults,
            random=random,
            new_topic_id=lambda: random_topic_id(random) if self.knows_ids else None,
        )

    async def open(self):
        await self.store.open_session()
        await self.store.multi([*map(Create, paths.with_parents(paths.PERSISTENT_ROOTS))])

    async def follow(self, step):
        """Its effect, if it is one that topics or configurations are written by."""
        arguments = step.arguments
        match step.operation, arguments.get("api"):
            case "start_broker", _:
                node = registration(arguments["broker"], rack=arguments.get("rack"))
                await self.store.create(paths.broker(arguments["broker"]), node.encode())
                self.knows_ids = arguments.get("protocol", "3.9") == "3.9"
            case "stop_broker" | "kill_broker", _:
                await self.store.delete(paths.broker(arguments["broker"]))
            case "ask", name if name in ASKED and succeeded(step):
                request = api(ApiKey[name]).request
                message = from_json(request, arguments["version"], arguments["request"])
                await self._ask(name, message, step)
                return True
        return False

    async def _ask(self, name, message, step):
        match name:
            case "CREATE_TOPICS":
                entries = [as_it_was_placed(topic, step) for topic in message.topics]
                plans = await self.topics.plan_topics(entries)
                assert all(isinstance(plan, NewTopic) for plan in plans.values()), plans
                assert await self.topics.create_topics([*plans.values()]) == {}
            case "CREATE_PARTITIONS":
                plans = await self.topics.plan_growths(message.topics)
                assert all(isinstance(plan, Growth) for plan in plans.values()), plans
                assert await self.topics.grow_topics([*plans.values()]) == {}
            case "ALTER_CONFIGS":
                (resource,) = message.resources
                await self.configs.replace_topic(resource.resource_name, resource.configs)
            case "INCREMENTAL_ALTER_CONFIGS":
                (resource,) = message.resources
                await self._alter(resource)

    async def _alter(self, resource):
        if resource.resource_type == BROKER_RESOURCE:
            number = int(resource.resource_name) if resource.resource_name else None
            entity = paths.broker_config(number)
            await self.configs.alter(entity, lambda now: altered(now, resource.configs, {}))
        else:
            await self.configs.alter_topic(resource.resource_name, resource.configs)

    async def value(self, path):
        node = await self.store.get(path)
        return self.normaliser.value(path, node.value)


def succeeded(step):
    (answers,) = (each for each in step.answer.values() if isinstance(each, list))
    return {each["errorCode"] for each in answers} == {0}


def as_it_was_placed(topic, step):
    """Kafka has drawn where replicas go; we take them to the same brokers."""
    if topic.num_partitions == BY_DEFAULT:
        return topic
    config = {each.name: each.value for each in topic.configs}
    return topic_entry(topic.name, replicas=step.assignment(topic.name), config=config)


def written_by_requests(step):
    """Not what the controller writes when it sees them."""
    for kind, path, value, *_ in step.writes:
        match path.split("/")[1:]:
            case ["brokers", "topics", _] | ["config", _, _] if kind != "delete":
                yield path, value.encode()


@pytest.mark.parametrize("name", names_of_recorded_trees())
async def test_a_request_writes_what_kafka_writes(name):
    replay = Replay()
    await replay.open()
    compared = 0
    for step in Recording.load(name).steps:
        if step.arguments.get("api") in {"DELETE_TOPICS", "ALTER_PARTITION_REASSIGNMENTS"}:
            break
        if await replay.follow(step):
            for path, value in written_by_requests(step):
                if not path.startswith(paths.CONFIG_CHANGES.new):
                    assert await replay.value(path) == value, step.name
                    compared += 1
    assert compared > 0
