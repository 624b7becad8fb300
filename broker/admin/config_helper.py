"""What is set, of a topic, a group, a broker, all brokers or a logger, as DescribeConfigs shows it.

A topic's or a group's configuration is read from the store, so that whoever has just changed it
sees the change; a broker's is the one in force.  A setting that no table declares is shown without
its value, which might be a secret.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.broker.admin.config_resources import ResourceType, check_is_this_broker
from odradek.broker.admin.logger_levels import effective_levels
from odradek.broker.settings.config_store import read_config
from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.broker.settings.server_settings import SETTINGS_BY_NAME
from odradek.config.definition import ConfigSource
from odradek.config.settings import ConfigDescription, ConfigSynonym
from odradek.controller.store import paths
from odradek.controller.store.base import MetadataStore
from odradek.controller.topic_names import check_topic_name
from odradek.protocol.api.describe_configs import DescribeConfigsResponse
from odradek.protocol.errors import InvalidRequest, UnknownTopicOrPartition

ConfigResult = DescribeConfigsResponse.Resource.Config

#: A source that is no layer: the levels of loggers.
DYNAMIC_BROKER_LOGGER_CONFIG = 6
UNKNOWN_CONFIG_TYPE = 0


class ConfigHelper:
    """What this broker knows of configurations."""

    def __init__(
        self,
        settings: DynamicSettings,
        store: MetadataStore,
        *,
        broker_id: int,
        has_topic: Callable[[str], bool],
    ) -> None:
        self._settings = settings
        self._store = store
        self._broker_id = broker_id
        self._has_topic = has_topic

    async def describe_configs(self, resource_type: ResourceType, name: str) -> list[ConfigResult]:
        """With synonyms and documentation.  Raises a KafkaError."""
        match resource_type:
            case ResourceType.TOPIC:
                return await self._describe_topic(name)
            case ResourceType.GROUP:
                return await self._describe_group(name)
            case ResourceType.BROKER if not name:
                return [*self._describe_cluster_defaults()]
            case ResourceType.BROKER:
                check_is_this_broker(name, self._broker_id)
                return [*self._describe_broker()]
            case ResourceType.BROKER_LOGGER:
                check_is_this_broker(name, self._broker_id)
                return [
                    _logger_config_result(logger, level)
                    for logger, level in effective_levels().items()
                ]
            case _:
                raise InvalidRequest(
                    f"Configs of resource type {resource_type.name} cannot be described."
                )

    async def _describe_topic(self, name: str) -> list[ConfigResult]:
        check_topic_name(name)
        if not self._has_topic(name):
            raise UnknownTopicOrPartition
        config = await read_config(self._store, paths.topic_config(name))
        settings = self._settings.build_topic_settings(name, config)
        return [
            _config_result(settings.describe(setting_name)) for setting_name in settings.by_name
        ]

    async def _describe_group(self, name: str) -> list[ConfigResult]:
        """Whether there is such a group or not."""
        if not name:
            raise InvalidRequest("Groups have no configuration in common: name one.")
        config = await read_config(self._store, paths.group_config(name))
        settings = self._settings.build_group_settings(name, config)
        return [
            _config_result(settings.describe(setting_name)) for setting_name in settings.by_name
        ]

    def _describe_broker(self) -> Iterator[ConfigResult]:
        current = self._settings.current
        for name in SETTINGS_BY_NAME:
            yield _config_result(current.describe(name))
        for name in current.undeclared_names():
            sources = [layer for layer in ConfigSource if name in current.configs_from(layer)]
            yield _undeclared_config_result(name, sources)

    def _describe_cluster_defaults(self) -> Iterator[ConfigResult]:
        """Only what was set for all of them."""
        current = self._settings.current
        for name, text in current.configs_from(ConfigSource.CLUSTER).items():
            if name not in SETTINGS_BY_NAME:
                yield _undeclared_config_result(name, [ConfigSource.CLUSTER])
                continue
            setting = SETTINGS_BY_NAME[name]
            synonym = ConfigSynonym(name, None if setting.sensitive else text, ConfigSource.CLUSTER)
            yield _config_result(
                ConfigDescription(setting, synonym.value, ConfigSource.CLUSTER, (synonym,))
            )


def _config_result(entry: ConfigDescription) -> ConfigResult:
    setting = entry.setting
    return ConfigResult(
        name=setting.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source.value,
        is_sensitive=setting.sensitive,
        synonyms=[_synonym_result(synonym) for synonym in entry.synonyms],
        config_type=setting.type.value,
        documentation=" ".join(setting.doc.split()),
    )


def _synonym_result(synonym: ConfigSynonym) -> ConfigResult.Synonym:
    return ConfigResult.Synonym(name=synonym.name, value=synonym.value, source=synonym.source.value)


def _undeclared_config_result(name: str, sources: list[ConfigSource]) -> ConfigResult:
    return ConfigResult(
        name=name,
        value=None,
        read_only=True,
        config_source=sources[0].value,
        is_sensitive=True,
        synonyms=[_synonym_result(ConfigSynonym(name, None, layer)) for layer in sources],
        config_type=UNKNOWN_CONFIG_TYPE,
        documentation=None,
    )


def _logger_config_result(name: str, level: str) -> ConfigResult:
    return ConfigResult(
        name=name,
        value=level,
        read_only=False,
        config_source=DYNAMIC_BROKER_LOGGER_CONFIG,
        is_sensitive=False,
        config_type=UNKNOWN_CONFIG_TYPE,
        documentation="",
    )
