"""The settings in force, and those who have to know when they change.

    default < file < all brokers (/config/brokers/<default>) < this broker (/config/brokers/N)
    and, of a topic's settings, the topic (/config/topics/T) before all of them; of those of a group
    of the consumer protocol, the group (/config/groups/G)

Loaded from the store before the broker starts, and again whenever the store tells of a change:

    settings = DynamicSettings(from_file, broker_id=1)
    await settings.load(store)
    settings.listen(CleanerSettings, cleaner.change_settings)
    settings.listen_to_topics(log_manager)
    ConfigChanges(store, settings.take, ...)

A stored value that breaks a rule is logged and ignored.  So is a broker's configuration whose
values break a rule between them: what was in force stays so.  A change is one assignment,
``current``; those who listen are told after it, each with the table that is another now.

A new topic is no change: its configuration is there before it is, and has to be read when its
first log is made (``read_topics``).

The configurations of users, clients and addresses are only kept, for those who will honour them.

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

log = logging.getLogger(__name__)

Table = TypeVar("Table", bound=Settings)


class TopicConfigObserver(Protocol):
    """The log manager, for one."""

    def configure(self, topic: str, settings: TopicSettings | None) -> None:
        """None: the topic has none of its own any more."""

    def configure_defaults(self, defaults: TopicSettings) -> None: ...


class DynamicSettings:
    """What holds now, for this broker and each topic."""

    def __init__(self, settings: ServerSettings, *, broker_id: int) -> None:
        self.current = settings
        self.topic_defaults = settings.topic({})
        #: Of users, clients and addresses, as they are stored.
        self.unapplied_configs: dict[ConfigEntity, ConfigMap] = {}
        self._sources = {
            paths.broker_config(None): ConfigSource.CLUSTER,
            paths.broker_config(broker_id): ConfigSource.BROKER,
        }
        self._topics: dict[str, TopicSettings] = {}
        self._topic_configs: dict[str, ConfigMap] = {}
        #: The groups that have settings of their own.  Those of the server below them never change.
        self.groups: dict[str, OneGroupSettings] = {}
        self._listeners: defaultdict[type[Settings], list[Callable[[Any], None]]]
        self._listeners = defaultdict(list)
        self._topic_observers: list[TopicConfigObserver] = []

    @property
    def topics(self) -> Mapping[str, TopicSettings]:
        """Those that have settings of their own."""
        return self._topics

    def topic(self, name: str) -> TopicSettings:
        return self._topics.get(name, self.topic_defaults)

    def add_listener(self, table: type[Table], callback: Callable[[Table], None]) -> None:
        """``told`` is called with the table whenever it is another than before."""
        self._listeners[table].append(callback)

    def add_topic_observer(self, observer: TopicConfigObserver) -> None:
        self._topic_observers.append(observer)

    async def load(self, store: MetadataStore) -> None:
        """All that is configured.  Thread counts may differ from the file's as they like."""
        configs = await read_all_configs(store)
        for entity in self._sources:
            self._apply_broker_config(entity, configs.get(entity, {}), is_start=True)
        for entity, config in configs.items():
            if entity.entity_type is not EntityType.BROKER:
                await self.apply_config(entity, config)

    async def read_topics(self, store: MetadataStore, topics: Collection[str]) -> None:
        """Before their first logs are made here: nobody is told how a new topic is configured."""
        entities = [paths.topic_config(topic) for topic in topics]
        for entity, config in (await read_configs(store, entities)).items():
            self._apply_topic_config(entity.sanitized_name, config)

    def forget_topic(self, topic: str) -> None:
        """It has been deleted."""
        self._apply_topic_config(topic, {})

    async def apply_config(self, entity: ConfigEntity, config: ConfigMap) -> None:
        """This is configured now."""
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
        """Whether this may be configured for the broker, or for all.  Raises SettingError."""
        for name, text in config.items():
            check_update(name, text, source)
        check_thread_counts(self.current, self.current.with_configs(source, config))

    # Changes

    def _apply_broker_config(
        self, entity: ConfigEntity, config: ConfigMap, *, is_start: bool = False
    ) -> None:
        source = self._sources.get(entity)
        if source is None:
            return  # another broker's
        try:
            after = self.current.with_configs(
                source, filter_valid_configs(config, source, entity_name=str(entity))
            )
            if not is_start:
                check_thread_counts(self.current, after)
        except SettingError as error:
            log.error("The configuration of %s has no effect: %s", entity, error)
            return
        before, self.current = self.current, after
        ignored = unknown_names(
            after.configs_from(source).keys() - before.configs_from(source).keys(), TABLES
        )
        if ignored:
            log.warning("Of the configuration of %s has no effect: %s", entity, ", ".join(ignored))
        self._notify_listeners(before)

    def _notify_listeners(self, before: ServerSettings) -> None:
        pairs = zip(before.tables, self.current.tables, strict=True)
        changed = [now for was, now in pairs if was != now]
        if before.quotas != self.current.quotas:
            changed.append(self.current.quotas)
        for table in changed:
            for callback in self._listeners[type(table)]:
                callback(table)
        # Also when no value is another: where it was written may have changed, and is described.
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
            return  # of all groups, which nobody can configure
        self.groups.pop(group_id, None)
        if config:
            self.groups[group_id] = self.build_group_settings(group_id, config)

    def build_group_settings(self, group_id: str, config: ConfigMap) -> OneGroupSettings:
        """On the server's settings; what cannot be in force is logged and left out."""
        return self.current.group(
            _filter_parseable(config, OneGroupSettings.by_name, f"group {group_id}")
        )

    def build_topic_settings(self, topic: str, config: ConfigMap) -> TopicSettings:
        """On the server's settings; what cannot be in force is logged and left out."""
        valid = _filter_parseable(config, TopicSettings.by_name, f"topic {topic}")
        try:
            return self.current.topic(valid)
        except SettingError as error:
            log.error("The configuration of topic %s is ignored in part: %s", topic, error)
            return self._without_conflicting(valid)

    def _without_conflicting(self, config: ConfigMap) -> TopicSettings:
        """Rules between settings concern few of them; the others must hold, or records might go."""
        for count in range(1, len(config)):
            for omitted in combinations(config, count):
                try:
                    return self.current.topic(
                        {name: text for name, text in config.items() if name not in omitted}
                    )
                except SettingError as error:
                    log.debug("Nor without %s: %s", ", ".join(omitted), error)
        return self.current.topic({})


def _check_plugins(
    entity: ConfigEntity, config: ConfigMap[str, Setting], entity_name: str
) -> dict[str, str]:
    """What can be read of it; what cannot is logged."""
    valid = {}
    for name in config.keys() & settings.keys():
        try:
            settings[name].parse(config[name])
        except SettingError as error:
            log.error("The configuration of %s is ignored in part: %s", entity_name, error)
        else:
            valid[name] = config[name]
    return valid


class MaintenanceSettings:
    """What looking after the logs depends on, as it is at the moment."""

    def __init__(self, settings: DynamicSettings) -> None:
        self._settings = settings

    @property
    def cleaner(self) -> CleanerSettings:
        return self._settings.current.cleaner

    @property
    def background_threads(self) -> int:
        return self._settings.current.broker.background_threads


class ProducerStateManagerConfig:
    """What the logs' memory of producers depends on, as it is at the moment."""

    def __init__(self, settings: DynamicSettings) -> None:
        self._settings = settings

    @property
    def producer_id_expiration_ms(self) -> int:
        return self._settings.current.log.producer_id_expiration_ms

    @property
    def transaction_partition_verification_enable(self) -> bool:
        return self._settings.current.log.transaction_partition_verification_enable
