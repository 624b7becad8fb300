"""One broker's view of configurations: a store, the settings in force, and the three handlers.

    scene = await config_scene({"log.roll.hours": "48"}, topics={"t": {"retention.ms": "1"}})
    response = await scene.asked(ApiKey.DESCRIBE_CONFIGS, request, version=4)

What was changed is in force when the answer is there, as if the store had told of it at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.broker.admin.config_admin_manager import ConfigAdminManager
from odradek.broker.admin.config_helper import ConfigHelper
from odradek.broker.handlers import alter_configs, describe_configs, incremental_alter_configs
from odradek.broker.request import Request, RequestContext
from odradek.broker.settings.config_store import read_config
from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.broker.settings.server_settings import ServerSettings
from odradek.config.definition import ConfigSource
from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.registration import create_top_level_paths
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.data_tree import DataTree
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.topic import TopicAssignment
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
    descriptions: ConfigHelper
    admin: ConfigAdminManager
    topics: list[str]

    async def asked(self, key: ApiKey, request: Any, *, version: int) -> Any:
        peer = RequestContext("connection", client_host="127.0.0.1", listener="PLAINTEXT")
        call = Request(request, version, key, correlation_id=1, client_id="test", context=peer)
        handler: Any = HANDLERS[key]
        whom = self.descriptions if handler is describe_configs else self.admin
        try:
            response = await handler.handle(whom, call)
        except KafkaError as failure:
            return handler.error_response(call, failure)
        await self.tell()
        return response

    async def tell(self) -> None:
        """What is configured by now, as the store would."""
        brokers = [paths.broker_config(None), paths.broker_config(BROKER_ID)]
        for entity in [*brokers, *map(paths.topic_config, self.topics)]:
            await self.settings.apply_config(entity, await read_config(self.store, entity))


async def config_scene(
    file: Mapping[str, str] | None = None, *, topics: Mapping[str, Mapping[str, str]] | None = None
) -> ConfigScene:
    store = MemoryStore(DataTree())
    at_end(store.close)
    await store.open_session()
    await create_top_level_paths(store)
    for name, config in (topics or {}).items():
        topic = TopicAssignment({0: ReplicaAssignment((BROKER_ID,))})
        await store.create(paths.topic(name), topic.encode())
        await store.create(paths.topic_config(name).path, EntityConfig(config).encode())
    names = [*(topics or {})]
    settings = DynamicSettings(
        ServerSettings.read({ConfigSource.FILE: file or {}}), broker_id=BROKER_ID
    )
    await settings.load(store)
    tree = ConfigAdmin(store, server_settings=lambda: settings.current.topic_default_tables)
    return ConfigScene(
        store,
        settings,
        ConfigHelper(settings, store, broker_id=BROKER_ID, has_topic=lambda name: name in names),
        ConfigAdminManager(tree, settings, broker_id=BROKER_ID),
        names,
    )
