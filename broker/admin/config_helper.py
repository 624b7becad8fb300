"""What is set, of a topic, a group, a broker, all brokers or a logger, as DescribeConfigs shows it.

A topic's or a group's configuration is read from the store, so that whoever has just changed it
sees the change; a broker's is the one in force.  A setting that no table declares is shown without
its value, which might be a secret.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.broker.admin.logger_levels import levels
from odradek.broker.admin.resources import ResourceType, check_is_this_broker
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.server_settings import BY_NAME
from odradek.broker.settings.stored import stored_config
from odradek.config.definition import Layer
from odradek.config.settings import Description, Synonym
from odradek.controller.store import paths
from odradek.controller.store.base import MetadataStore
from odradek.controller.topic_names import check_topic_name
from odradek.protocol.api.describe_configs import DescribeConfigsResponse
from odradek.protocol.errors import InvalidRequest, UnknownTopicOrPartition

Config = DescribeConfigsResponse.Resource.Config

#: A source that is no layer: the levels of loggers.
LOGGER_SOURCE = 6
UNKNOWN_KIND = 0


class ConfigDescriptions:
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

    async def describe(self, kind: ResourceType, name: str) -> list[Config]:
        """With synonyms and documentation.  Raises a KafkaError."""
        match kind:
            case ResourceType.TOPIC:
                return await self._topic(name)
            case ResourceType.GROUP:
                return await self._group(name)
            case ResourceType.BROKER if not name:
                return [*self._all_brokers()]
            case ResourceType.BROKER:
                check_is_this_broker(name, self._broker_id)
                return [*self._broker()]
            case ResourceType.BROKER_LOGGER:
                check_is_this_broker(name, self._broker_id)
                return [_logger(logger, level) for logger, level in levels().items()]
            case _:
                raise InvalidRequest(f"Configurations of {kind.name} are not kept here.")

    async def _topic(self, name: str) -> list[Config]:
        check_topic_name(name)
        if not self._has_topic(name):
            raise UnknownTopicOrPartition
        config = await stored_config(self._store, paths.topic_config(name))
        settings = self._settings.usable_topic(name, config)
        return [_shown(settings.describe(each)) for each in settings.by_name]

    async def _group(self, name: str) -> list[Config]:
        """Whether there is such a group or not."""
        if not name:
            raise InvalidRequest("Groups have no configuration in common: name one.")
        config = await stored_config(self._store, paths.group_config(name))
        settings = self._settings.usable_group(name, config)
        return [_shown(settings.describe(each)) for each in settings.by_name]

    def _broker(self) -> Iterator[Config]:
        current = self._settings.current
        for name in BY_NAME:
            yield _shown(current.describe(name))
        for name in current.undeclared():
            written = [layer for layer in Layer if name in current.texts(layer)]
            yield _undeclared(name, written)

    def _all_brokers(self) -> Iterator[Config]:
        """Only what was set for all of them."""
        current = self._settings.current
        for name, text in current.texts(Layer.CLUSTER).items():
            if name not in BY_NAME:
                yield _undeclared(name, [Layer.CLUSTER])
                continue
            setting = BY_NAME[name]
            synonym = Synonym(name, None if setting.sensitive else text, Layer.CLUSTER)
            yield _shown(Description(setting, synonym.text, Layer.CLUSTER, (synonym,)))


def _shown(description: Description) -> Config:
    setting = description.setting
    return Config(
        name=setting.name,
        value=description.text,
        read_only=description.read_only,
        config_source=description.layer.value,
        is_sensitive=setting.sensitive,
        synonyms=[_synonym(each) for each in description.synonyms],
        config_type=setting.kind.value,
        documentation=" ".join(setting.doc.split()),
    )


def _synonym(synonym: Synonym) -> Config.Synonym:
    return Config.Synonym(name=synonym.name, value=synonym.text, source=synonym.layer.value)


def _undeclared(name: str, written: list[Layer]) -> Config:
    return Config(
        name=name,
        value=None,
        read_only=True,
        config_source=written[0].value,
        is_sensitive=True,
        synonyms=[_synonym(Synonym(name, None, layer)) for layer in written],
        config_type=UNKNOWN_KIND,
        documentation=None,
    )


def _logger(name: str, level: str) -> Config:
    return Config(
        name=name,
        value=level,
        read_only=False,
        config_source=LOGGER_SOURCE,
        is_sensitive=False,
        config_type=UNKNOWN_KIND,
        documentation="",
    )
