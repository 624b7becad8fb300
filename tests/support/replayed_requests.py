"""The requests of a recording that write topics and configurations, asked of our own code.

Kafka drew where replicas go, so we place them where it did.  Quotas and credentials are only texts
to what is used here: those are taken from the recording.
"""

from random import Random
from typing import Any

from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.config_alterations import prepare_incremental_config
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.store import paths
from odradek.controller.store.base import MetadataStore
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_planning import (
    BROKER_DEFAULT,
    CreatableTopic,
    CreatePartitionsTopic,
    NewPartitions,
    NewTopic,
    TopicDefaults,
)
from odradek.protocol.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.registry import api
from odradek.protocol.types import Uuid
from tests.support.kafka_json import from_json
from tests.support.recorded_trees import Step
from tests.support.topic_entries import topic_entry

BROKER_RESOURCE = 4


class ReplayedRequests:
    """``knows_ids`` is of brokers from Kafka 2.8 on."""

    def __init__(self, store: MetadataStore) -> None:
        self.knows_ids = True
        self._random = Random(1)
        self._configs = ConfigAdmin(store, server_settings=lambda: ())
        self._topics = TopicAdmin(
            store,
            MetadataReader(store),
            defaults=TopicDefaults,
            random=self._random,
            new_topic_id=self._new_topic_id,
        )

    async def ask(self, step: Step) -> bool:
        """False if it is none of these requests."""
        name = step.arguments["api"]
        request = step.arguments["request"]
        match name:
            case "ALTER_CLIENT_QUOTAS":
                for entry in request["entries"]:
                    await self._configure_as_in(step, _quota_entity(entry["entity"]))
            case "ALTER_USER_SCRAM_CREDENTIALS":
                for upserted in request["upsertions"]:
                    await self._configure_as_in(step, paths.user_config(upserted["name"]))
            case "CREATE_TOPICS" | "CREATE_PARTITIONS" | "DELETE_TOPICS":
                await self._ask_of_topics(name, _message(step), step)
            case "ALTER_CONFIGS" | "INCREMENTAL_ALTER_CONFIGS":
                await self._alter(name, _message(step))
            case "FIND_COORDINATOR":
                await self._create_as_in(step)
            case _:
                return False
        return True

    def _new_topic_id(self) -> Uuid | None:
        return random_topic_id(self._random) if self.knows_ids else None

    async def _ask_of_topics(self, name: str, message: Any, step: Step) -> None:
        match name:
            case "CREATE_TOPICS":
                await self._create([_as_it_was_placed(topic, step) for topic in message.topics])
            case "CREATE_PARTITIONS":
                await self._grow(message.topics)
            case _:
                assert await self._topics.request_deletions(message.topic_names) == {}

    async def _create(self, entries: list[CreatableTopic]) -> None:
        plans = [*(await self._topics.plan_topics(entries)).values()]
        topics = [plan for plan in plans if isinstance(plan, NewTopic)]
        assert topics == plans
        assert await self._topics.create_topics(topics) == {}

    async def _grow(self, entries: list[CreatePartitionsTopic]) -> None:
        plans = [*(await self._topics.plan_partitions(entries)).values()]
        growths = [plan for plan in plans if isinstance(plan, NewPartitions)]
        assert growths == plans
        assert await self._topics.create_partitions(growths) == {}

    async def _create_as_in(self, step: Step) -> None:
        """Because something was looked for that is kept in them."""
        for operation, path, *_ in step.writes:
            if operation == "create" and path.rpartition("/")[0] == paths.TOPICS:
                name = path.rpartition("/")[2]
                config = step.tree[paths.topic_config(name).path].content["config"]
                entry = topic_entry(name, replicas=step.assignment(name), config=config)
                await self._create([entry])

    async def _alter(self, name: str, message: Any) -> None:
        for resource in message.resources:
            if name == "ALTER_CONFIGS":
                await self._configs.alter_topic_config(resource.resource_name, resource.configs)
            elif resource.resource_type == BROKER_RESOURCE:
                await self._alter_broker(resource)
            else:
                await self._configs.incremental_alter_topic_config(
                    resource.resource_name, resource.configs
                )

    async def _alter_broker(self, resource: IncrementalAlterConfigsRequest.Resource) -> None:
        number = int(resource.resource_name) if resource.resource_name else None
        entity = paths.broker_config(number)
        await self._configs.update_entity_config(
            entity, lambda now: prepare_incremental_config(now, resource.configs, {})
        )

    async def _configure_as_in(self, step: Step, entity: paths.ConfigEntity) -> None:
        node = step.tree.get(entity.path)
        config = {} if node is None else node.content["config"]
        await self._configs.update_entity_config(entity, lambda _: config)


def _message(step: Step) -> Any:
    arguments = step.arguments
    request = api(ApiKey[arguments["api"]]).request
    return from_json(request, arguments["version"], arguments["request"])


def _as_it_was_placed(topic: CreatableTopic, step: Step) -> CreatableTopic:
    if topic.num_partitions == BROKER_DEFAULT:
        return topic
    config = {each.name: each.value for each in topic.configs}
    return topic_entry(topic.name, replicas=step.assignment(topic.name), config=config)


def _quota_entity(parts: list[dict[str, str | None]]) -> paths.ConfigEntity:
    named = {part["entityType"]: part["entityName"] for part in parts}
    match named:
        case {"user": user, "client-id": client_id}:
            return paths.user_client_config(user=user, client_id=client_id)
        case {"user": user}:
            return paths.user_config(user)
        case {"client-id": client_id}:
            return paths.client_config(client_id)
    return paths.ip_config(named["ip"])
