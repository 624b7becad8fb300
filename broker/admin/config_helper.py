"""Describes the configs of topics, groups, a broker, all brokers and loggers for DescribeConfigs.

The config of a topic or group is read from the metadata store, so a client sees its own change at
once.  The config of a broker is the one in effect.  A setting without a declaration is listed
without its value, because the value may be a secret.

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

#: The config source of logger levels, which come from no config layer.
DYNAMIC_BROKER_LOGGER_CONFIG = 6
UNKNOWN_CONFIG_TYPE = 0


class ConfigHelper:
    """Describes configs as this broker knows them."""

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
        """Return all configs with synonyms and documentation; raises a KafkaError."""
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
        """Describe the config of a group, which need not exist."""
        if not name:
            raise InvalidRequest("There is no default group config: name a group.")
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
        """Describe only the settings that were set as cluster-wide defaults."""
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
