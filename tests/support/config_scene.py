"""One broker's view of configurations: a store, the settings in force, and the three handlers.

    scene = await config_scene({"log.roll.hours": "48"}, topics={"t": {"retention.ms": "1"}})
    response = await scene.asked(ApiKey.DESCRIBE_CONFIGS, request, version=4)

What was changed is in force when the answer is there, as if the store had told of it at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.broker.admin.config_admin import BrokerConfigAdmin
from odradek.broker.admin.config_descriptions import ConfigDescriptions
from odradek.broker.call import Call, Peer
from odradek.broker.handlers import alter_configs, describe_configs, incremental_alter_configs
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.server_settings import ServerSettings
from odradek.broker.settings.stored import stored_config
from odradek.config.definition import Layer
from odradek.controller.assignment import Assignment
from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.registration import create_roots
from odradek.controller.store import paths
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.store.tree import Tree
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import KafkaError
from tests.support.loops import at_end
from tests.support.memory_store import MemoryStore

BROKER_ID = 1
HANDLERS = {
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
}


@dataclass(frozen=True, slots=True)
class ConfigScene:
    store: MemoryStore
    settings: DynamicSettings
    descriptions: ConfigDescriptions
    admin: BrokerConfigAdmin
    topics: list[str]

    async def asked(self, key: ApiKey, request: Any, *, version: int) -> Any:
        peer = Peer("connection", client_host="127.0.0.1", listener="PLAINTEXT")
        call = Call(request, version, key, correlation_id=1, client_id="test", peer=peer)
        handler: Any = HANDLERS[key]
        whom = self.descriptions if handler is describe_configs else self.admin
        try:
            response = await handler.handle(whom, call)
        except KafkaError as failure:
            return handler.refused(call, failure)
        await self.tell()
        return response

    async def tell(self) -> None:
        """What is configured by now, as the store would."""
        brokers = [paths.broker_config(None), paths.broker_config(BROKER_ID)]
        for entity in [*brokers, *map(paths.topic_config, self.topics)]:
            await self.settings.take(entity, await stored_config(self.store, entity))


async def config_scene(
    file: Mapping[str, str] | None = None, *, topics: Mapping[str, Mapping[str, str]] | None = None
) -> ConfigScene:
    store = MemoryStore(Tree())
    at_end(store.close)
    await store.open_session()
    await create_roots(store)
    for name, config in (topics or {}).items():
        topic = TopicAssignment({0: Assignment((BROKER_ID,))})
        await store.create(paths.topic(name), topic.encode())
        await store.create(paths.topic_config(name).path, EntityConfig(config).encode())
    names = [*(topics or {})]
    settings = DynamicSettings(ServerSettings.read({Layer.FILE: file or {}}), broker_id=BROKER_ID)
    await settings.load(store)
    tree = ConfigAdmin(store, server=lambda: settings.current.defaults_of_topics)
    return ConfigScene(
        store,
        settings,
        ConfigDescriptions(
            settings, store, broker_id=BROKER_ID, has_topic=lambda name: name in names
        ),
        BrokerConfigAdmin(tree, settings, broker_id=BROKER_ID),
        names,
    )
