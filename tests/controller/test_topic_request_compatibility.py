"""Invalid topic requests get the error codes of Apache Kafka."""

from random import Random

import pytest

from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.base import Create
from odradek.controller.store.data_tree import DataTree
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_planning import NewTopic, TopicDefaults
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.registry import api
from tests.support.controller_answers import saved_groups
from tests.support.controller_scene import registration
from tests.support.kafka_json import from_json
from tests.support.memory_store import MemoryStore

GROUPS = saved_groups()
TOPIC_RESOURCE = 2

#: Kafka accepts these invalid requests or returns an unknown server error. We return these errors.
DIFFERENCES = {
    "create: negative partition": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "create v4: negative broker": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "create v4: no replicas": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "grow: empty name": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "alter: unknown operation": ErrorCode.INVALID_REQUEST,
}

#: Errors found before the topics are checked: the timeout, duplicate resources, the topic id.
CHECKED_ELSEWHERE = {
    "create v4: no time",
    "alter: resource twice",
    "delete v6: unknown id",
    "delete v6: name and id",
    "delete v6: neither name nor id",
}


class Cluster:
    """Brokers and topics in a store without a controller."""

    def __init__(self):
        self.store = MemoryStore(DataTree())
        self.random = Random(1)
        reads = MetadataReader(self.store)
        self.configs = ConfigAdmin(self.store, server_settings=lambda: ())
        self.topics = TopicAdmin(
            self.store,
            reads,
            defaults=TopicDefaults,
            random=self.random,
            new_topic_id=lambda: random_topic_id(self.random),
        )

    async def open(self):
        await self.store.open_session()
        await self.store.multi([*map(Create, paths.with_parents(paths.PERSISTENT_ROOTS))])

    async def apply_step(self, operation, arguments):
        """Apply a step of a recording as far as these tests need it."""
        match operation:
            case "start_broker":
                node = registration(arguments["broker"], rack=arguments.get("rack"))
                await self.store.create(paths.broker(arguments["broker"]), node.encode())
            case "stop_broker":
                await self.store.delete(paths.broker(arguments["broker"]))
            case "ask":
                await self._send_request(**arguments)

    async def _send_request(self, *, to, api, version, request):
        message = parse_request(api, version, request)
        match api:
            case "CREATE_TOPICS":
                plans = await self.topics.plan_topics(message.topics)
                assert await self.topics.create_topics([*plans.values()]) == {}
            case "DELETE_TOPICS":
                assert await self.topics.request_deletions(message.topic_names) == {}
            case "ALTER_PARTITION_REASSIGNMENTS":
                (topic,) = message.topics
                await self._reassign(topic.name, topic.partitions[0].replicas)
            case _:
                raise AssertionError(api)

    async def _reassign(self, name, target):
        value, _ = await self.store.get(paths.topic(name))
        topic = TopicAssignment.decode(value)
        reassigning = ReplicaAssignment(topic.partitions[0].replicas).reassign_to(target)
        node = TopicAssignment({0: reassigning}, topic.topic_id)
        await self.store.set(paths.topic(name), node.encode())

    async def error_codes(self, case):
        """Send the request of the case and return the error codes by topic."""
        message = parse_request(case.api, case.version, case.request)
        match case.api:
            case "CREATE_TOPICS":
                plans = await self.topics.plan_topics(message.topics)
                if not message.validate_only:
                    new = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
                    plans |= await self.topics.create_topics(new)
                return codes_by_name(plans, [topic.name for topic in message.topics])
            case "CREATE_PARTITIONS":
                plans = await self.topics.plan_partitions(message.topics)
                return codes_by_name(plans, [topic.name for topic in message.topics])
            case "DELETE_TOPICS":
                names = message.topic_names or [topic.name for topic in message.topics]
                return codes_by_name(await self.topics.request_deletions(names), names)
            case _:
                (resource,) = message.resources
                return {resource.resource_name: await self._alter(resource, message)}

    async def _alter(self, resource, message):
        try:
            await self.configs.incremental_alter_topic_config(
                resource.resource_name, resource.configs, validate_only=message.validate_only
            )
        except KafkaError as error:
            return code_of(error)
        return 0


def codes_by_name(plans, names):
    plans_by_name = {name: plans.get(name) for name in names}
    return {
        name: code_of(plan) if isinstance(plan, KafkaError) else 0
        for name, plan in plans_by_name.items()
    }


def parse_request(name, version, request):
    return from_json(api(ApiKey[name]).request, version, request)


def is_about_topics(case):
    if case.to != "controller" or case.name in CHECKED_ELSEWHERE:
        return False
    if case.api == "INCREMENTAL_ALTER_CONFIGS":
        kinds = {resource["resourceType"] for resource in case.request["resources"]}
        return kinds == {TOPIC_RESOURCE}
    return case.api in {"CREATE_TOPICS", "CREATE_PARTITIONS", "DELETE_TOPICS"}


def recorded_codes(case):
    (results,) = (result for result in case.answer.values() if isinstance(result, list))
    return {
        result.get("name", result.get("resourceName")): result["errorCode"] for result in results
    }


@pytest.mark.parametrize(
    ("group", "case"),
    [
        pytest.param(group, case, id=f"{group.name}: {case.name}")
        for group in GROUPS
        for case in group.cases
        if is_about_topics(case)
    ],
)
async def test_error_codes_of_invalid_topic_requests_equal_kafkas(group, case):
    cluster = Cluster()
    await cluster.open()
    for earlier_group in GROUPS[: GROUPS.index(group) + 1]:
        for step in earlier_group.steps:
            await cluster.apply_step(**step)
    codes = await cluster.error_codes(case)
    if case.name in DIFFERENCES:
        assert {*codes.values()} == {DIFFERENCES[case.name].code}
        assert codes != recorded_codes(case)
    else:
        assert codes == recorded_codes(case)
