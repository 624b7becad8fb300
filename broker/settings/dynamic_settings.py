"""The current settings and the listeners for their changes.  Kafka: DynamicBrokerConfig.

    default < file < all brokers (/config/brokers/<default>) < this broker (/config/brokers/N)
    A topic's own configuration (/config/topics/T) overrides all of these for the topic.  A group's
    own configuration (/config/groups/G) does so for a group of the consumer protocol.

The settings are loaded from the store before the broker starts, and again after each change
notification:

    settings = DynamicSettings(from_file, broker_id=1)
    await settings.load(store)
    settings.add_listener(CleanerSettings, cleaner.change_settings)
    settings.add_topic_observer(log_manager)
    DynamicConfigManager(store, settings.apply_config, ...)

An invalid stored value is logged and ignored.  If the values of a broker's configuration contradict
each other, the whole configuration is logged and ignored, and the former settings stay in force.  A
change is one assignment to ``current``; after it, each listener is called with the changed table.

There is no change notification for a new topic: its configuration is stored before the topic, and
is read when its first log is created (``read_topics``).

The configurations of users, clients and addresses are stored here, but have no effect yet.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from itertools import combinations
from typing import Any, Protocol, TypeVar

from odradek.broker.settings.config_store import read_all_configs, read_configs
from odradek.broker.settings.consumer_groups import OneGroupSettings
from odradek.broker.settings.dynamic_config_rules import (
    check_supported,
    check_thread_counts,
    check_update,
    filter_valid_configs,
)
from odradek.broker.settings.server_settings import TABLES, ConfigMap, ServerSettings
from odradek.broker.settings.sources import BadSettings
from odradek.config.definition import ConfigSource, Setting, SettingError
from odradek.config.settings import Settings, unknown_names
from odradek.controller.store import paths
from odradek.controller.store.base import MetadataStore
from odradek.controller.store.paths import ConfigEntity, EntityType
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.settings import TopicSettings

log = logging.getLogger("kafka.server")

Table = TypeVar("Table", bound=Settings)


class TopicConfigObserver(Protocol):
    """An observer of topic configurations, such as the log manager."""

    def configure(self, topic: str, settings: TopicSettings | None) -> None:
        """None means that the topic has no configuration any more."""

    def configure_defaults(self, defaults: TopicSettings) -> None: ...


class DynamicSettings:
    """The current settings of this broker, of its topics and of its groups."""

    def __init__(self, settings: ServerSettings, *, broker_id: int) -> None:
        self.current = settings
        self.topic_defaults = settings.topic({})
        #: The stored configurations of users, clients and addresses.
        self.unapplied_configs: dict[ConfigEntity, ConfigMap] = {}
        self._sources = {
            paths.broker_config(None): ConfigSource.CLUSTER,
            paths.broker_config(broker_id): ConfigSource.BROKER,
        }
        self._topics: dict[str, TopicSettings] = {}
        self._topic_configs: dict[str, ConfigMap] = {}
        #: Groups with a configuration.  The broker's defaults for groups are read-only.
        self.groups: dict[str, OneGroupSettings] = {}
        self._listeners: defaultdict[type[Settings], list[Callable[[Any], None]]]
        self._listeners = defaultdict(list)
        self._topic_observers: list[TopicConfigObserver] = []

    @property
    def topics(self) -> Mapping[str, TopicSettings]:
        """The topics that have a configuration."""
        return self._topics

    def topic(self, name: str) -> TopicSettings:
        return self._topics.get(name, self.topic_defaults)

    def add_listener(self, table: type[Table], callback: Callable[[Table], None]) -> None:
        """``callback`` is called with the table after each change of it."""
        self._listeners[table].append(callback)

    def add_topic_observer(self, observer: TopicConfigObserver) -> None:
        self._topic_observers.append(observer)

    async def load(self, store: MetadataStore) -> None:
        """Load all configurations.  Thread counts may differ from the file by any factor.

        Raises BadSettings if a plugin is configured that this broker must not ignore.
        """
        configs = await read_all_configs(store)
        for entity in self._sources:
            _check_plugins(entity, configs.get(entity, {}))
            self._apply_broker_config(entity, configs.get(entity, {}), is_start=True)
        for entity, config in configs.items():
            if entity.entity_type is not EntityType.BROKER:
                await self.apply_config(entity, config)

    async def read_topics(self, store: MetadataStore, topics: Collection[str]) -> None:
        """Call this before the first log of a new topic: there is no notification for it."""
        entities = [paths.topic_config(topic) for topic in topics]
        for entity, config in (await read_configs(store, entities)).items():
            self._apply_topic_config(entity.sanitized_name, config)

    def forget_topic(self, topic: str) -> None:
        """Call this after the topic was deleted."""
        self._apply_topic_config(topic, {})

    async def apply_config(self, entity: ConfigEntity, config: ConfigMap) -> None:
        """Apply the current configuration of an entity."""
        if entity.entity_type is EntityType.BROKER:
            self._apply_broker_config(entity, config)
        elif entity.entity_type is EntityType.TOPIC:
            self._apply_topic_config(entity.sanitized_name, config)
        elif entity.entity_type is EntityType.GROUP:
            self._apply_group_config(entity, config)
        else:
            self.unapplied_configs.pop(entity, None)
            if config:
                self.unapplied_configs[entity] = config

    def check(self, source: ConfigSource, config: ConfigMap) -> None:
        """Raises SettingError if this must not be configured for the broker or for all brokers."""
        for name, text in config.items():
            check_update(name, text, source)
        check_thread_counts(self.current, self.current.with_configs(source, config))

    # Changes

    def _apply_broker_config(
        self, entity: ConfigEntity, config: ConfigMap, *, is_start: bool = False
    ) -> None:
        source = self._sources.get(entity)
        if source is None:
            return  # the configuration of another broker
        try:
            after = self.current.with_configs(
                source, filter_valid_configs(config, source, entity_name=str(entity))
            )
            if not is_start:
                check_thread_counts(self.current, after)
        except SettingError as error:
            log.error("Ignoring the configuration of %s: %s", entity, error)
            return
        before, self.current = self.current, after
        ignored = unknown_names(
            after.configs_from(source).keys() - before.configs_from(source).keys(), TABLES
        )
        if ignored:
            log.warning("Ignoring unsupported settings of %s: %s", entity, ", ".join(ignored))
        self._notify_listeners(before)

    def _notify_listeners(self, before: ServerSettings) -> None:
        pairs = zip(before.tables, self.current.tables, strict=True)
        changed = [now for was, now in pairs if was != now]
        if before.quotas != self.current.quotas:
            changed.append(self.current.quotas)
        for table in changed:
            for callback in self._listeners[type(table)]:
                callback(table)
        # Also if no value changed: the source of a value, which is described, may have changed.
        self._apply_topic_defaults()

    def _apply_topic_defaults(self) -> None:
        before, self.topic_defaults = self.topic_defaults, self.current.topic({})
        if before != self.topic_defaults:
            for observer in self._topic_observers:
                observer.configure_defaults(self.topic_defaults)
        for topic in list(self._topics):
            self._apply_topic_config(topic, self._topic_configs[topic])

    def _apply_topic_config(self, topic: str, config: ConfigMap) -> None:
        settings = self.build_topic_settings(topic, config)
        before = self._topics.pop(topic, None)
        if config:
            self._topics[topic] = settings
            self._topic_configs[topic] = config
        else:
            self._topic_configs.pop(topic, None)
        now = self._topics.get(topic)
        if now != before:
            for observer in self._topic_observers:
                observer.configure(topic, now)

    def _apply_group_config(self, entity: ConfigEntity, config: ConfigMap) -> None:
        group_id = paths.desanitize(entity.sanitized_name)
        if group_id is None:
            return  # the default of all groups, which cannot be configured
        self.groups.pop(group_id, None)
        if config:
            self.groups[group_id] = self.build_group_settings(group_id, config)

    def build_group_settings(self, group_id: str, config: ConfigMap) -> OneGroupSettings:
        """Build on the broker's settings.  Invalid values are logged and omitted."""
        return self.current.group(
            _filter_parseable(config, OneGroupSettings.by_name, f"group {group_id}")
        )

    def build_topic_settings(self, topic: str, config: ConfigMap) -> TopicSettings:
        """Build on the broker's settings.  Invalid values are logged and omitted."""
        valid = _filter_parseable(config, TopicSettings.by_name, f"topic {topic}")
        try:
            return self.current.topic(valid)
        except SettingError as error:
            log.error("Ignoring conflicting settings of topic %s: %s", topic, error)
            return self._without_conflicting(valid)

    def _without_conflicting(self, config: ConfigMap) -> TopicSettings:
        """Omit as few settings as possible: ignoring retention settings could delete records."""
        for count in range(1, len(config)):
            for omitted in combinations(config, count):
                try:
                    return self.current.topic(
                        {name: text for name, text in config.items() if name not in omitted}
                    )
                except SettingError as error:
                    log.debug("Settings still conflict without %s: %s", ", ".join(omitted), error)
        return self.current.topic({})


def _check_plugins(entity: ConfigEntity, config: ConfigMap) -> None:
    try:
        for name, text in config.items():
            check_supported(name, text)
    except SettingError as error:
        raise BadSettings(f"The stored configuration of {entity}: {error}") from error


def _filter_parseable(
    config: ConfigMap, settings: Mapping[str, Setting], entity_name: str
) -> dict[str, str]:
    """Return the values that can be parsed; the others are logged."""
    valid = {}
    for name in config.keys() & settings.keys():
        try:
            settings[name].parse(config[name])
        except SettingError as error:
            log.error("Ignoring invalid setting of %s: %s", entity_name, error)
        else:
            valid[name] = config[name]
    return valid


class MaintenanceSettings:
    """The current settings for log maintenance."""

    def __init__(self, settings: DynamicSettings) -> None:
        self._settings = settings

    @property
    def cleaner(self) -> CleanerSettings:
        return self._settings.current.cleaner

    @property
    def background_threads(self) -> int:
        return self._settings.current.broker.background_threads


class ProducerStateManagerConfig:
    """The current settings for the producer state of the logs."""

    def __init__(self, settings: DynamicSettings) -> None:
        self._settings = settings

    @property
    def producer_id_expiration_ms(self) -> int:
        return self._settings.current.log.producer_id_expiration_ms

    @property
    def transaction_partition_verification_enable(self) -> bool:
        return self._settings.current.log.transaction_partition_verification_enable
