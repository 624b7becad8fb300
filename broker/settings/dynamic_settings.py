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

from odradek.broker.settings.consumer_groups import OneGroupSettings
from odradek.broker.settings.server_settings import TABLES, ServerSettings, Texts
from odradek.broker.settings.stored import configs_of, stored_configs
from odradek.broker.settings.updates import check_thread_counts, check_update, usable
from odradek.config.definition import Layer, Setting, SettingError
from odradek.config.settings import Settings, unknown_names
from odradek.controller.store import paths
from odradek.controller.store.base import MetadataStore
from odradek.controller.store.paths import ConfigEntity, EntityType
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.settings import TopicSettings

log = logging.getLogger(__name__)

Table = TypeVar("Table", bound=Settings)


class TopicObserver(Protocol):
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
        self.kept: dict[ConfigEntity, Texts] = {}
        self._layers = {
            paths.broker_config(None): Layer.CLUSTER,
            paths.broker_config(broker_id): Layer.BROKER,
        }
        self._topics: dict[str, TopicSettings] = {}
        self._topic_texts: dict[str, Texts] = {}
        #: The groups that have settings of their own.  Those of the server below them never change.
        self.groups: dict[str, OneGroupSettings] = {}
        self._listeners: defaultdict[type[Settings], list[Callable[[Any], None]]]
        self._listeners = defaultdict(list)
        self._observers: list[TopicObserver] = []

    @property
    def topics(self) -> Mapping[str, TopicSettings]:
        """Those that have settings of their own."""
        return self._topics

    def topic(self, name: str) -> TopicSettings:
        return self._topics.get(name, self.topic_defaults)

    def listen(self, table: type[Table], told: Callable[[Table], None]) -> None:
        """``told`` is called with the table whenever it is another than before."""
        self._listeners[table].append(told)

    def listen_to_topics(self, observer: TopicObserver) -> None:
        self._observers.append(observer)

    async def load(self, store: MetadataStore) -> None:
        """All that is configured.  Thread counts may differ from the file's as they like."""
        configs = await stored_configs(store)
        for entity in self._layers:
            self._change_server(entity, configs.get(entity, {}), is_start=True)
        for entity, config in configs.items():
            if entity.kind is not EntityType.BROKER:
                await self.take(entity, config)

    async def read_topics(self, store: MetadataStore, topics: Collection[str]) -> None:
        """Before their first logs are made here: nobody is told how a new topic is configured."""
        entities = [paths.topic_config(topic) for topic in topics]
        for entity, config in (await configs_of(store, entities)).items():
            self._change_topic(entity.node, config)

    def forget_topic(self, topic: str) -> None:
        """It has been deleted."""
        self._change_topic(topic, {})

    async def take(self, entity: ConfigEntity, config: Texts) -> None:
        """This is configured now."""
        if entity.kind is EntityType.BROKER:
            self._change_server(entity, config)
        elif entity.kind is EntityType.TOPIC:
            self._change_topic(entity.node, config)
        elif entity.kind is EntityType.GROUP:
            self._change_group(entity, config)
        else:
            self.kept.pop(entity, None)
            if config:
                self.kept[entity] = config

    def check(self, layer: Layer, config: Texts) -> None:
        """Whether this may be configured for the broker, or for all.  Raises SettingError."""
        for name, text in config.items():
            check_update(name, text, layer)
        check_thread_counts(self.current, self.current.with_layer(layer, config))

    # Changes

    def _change_server(
        self, entity: ConfigEntity, config: Texts, *, is_start: bool = False
    ) -> None:
        layer = self._layers.get(entity)
        if layer is None:
            return  # another broker's
        try:
            after = self.current.with_layer(layer, usable(config, layer, whose=str(entity)))
            if not is_start:
                check_thread_counts(self.current, after)
        except SettingError as broken:
            log.error("The configuration of %s has no effect: %s", entity, broken)
            return
        before, self.current = self.current, after
        idle = unknown_names(after.texts(layer).keys() - before.texts(layer).keys(), TABLES)
        if idle:
            log.warning("Of the configuration of %s has no effect: %s", entity, ", ".join(idle))
        self._tell(before)

    def _tell(self, before: ServerSettings) -> None:
        pairs = zip(before.tables, self.current.tables, strict=True)
        changed = [now for was, now in pairs if was != now]
        if before.quotas != self.current.quotas:
            changed.append(self.current.quotas)
        for table in changed:
            for told in self._listeners[type(table)]:
                told(table)
        # Also when no value is another: where it was written may have changed, and is described.
        self._change_defaults()

    def _change_defaults(self) -> None:
        before, self.topic_defaults = self.topic_defaults, self.current.topic({})
        if before != self.topic_defaults:
            for observer in self._observers:
                observer.configure_defaults(self.topic_defaults)
        for topic in list(self._topics):
            self._change_topic(topic, self._topic_texts[topic])

    def _change_topic(self, topic: str, config: Texts) -> None:
        settings = self.usable_topic(topic, config)
        before = self._topics.pop(topic, None)
        if config:
            self._topics[topic] = settings
            self._topic_texts[topic] = config
        else:
            self._topic_texts.pop(topic, None)
        now = self._topics.get(topic)
        if now != before:
            for observer in self._observers:
                observer.configure(topic, now)

    def _change_group(self, entity: ConfigEntity, config: Texts) -> None:
        group_id = paths.decoded(entity.node)
        if group_id is None:
            return  # of all groups, which nobody can configure
        self.groups.pop(group_id, None)
        if config:
            self.groups[group_id] = self.usable_group(group_id, config)

    def usable_group(self, group_id: str, config: Texts) -> OneGroupSettings:
        """On the server's settings; what cannot be in force is logged and left out."""
        return self.current.group(_readable(config, OneGroupSettings.by_name, f"group {group_id}"))

    def usable_topic(self, topic: str, config: Texts) -> TopicSettings:
        """On the server's settings; what cannot be in force is logged and left out."""
        kept = _readable(config, TopicSettings.by_name, f"topic {topic}")
        try:
            return self.current.topic(kept)
        except SettingError as broken:
            log.error("The configuration of topic %s is ignored in part: %s", topic, broken)
            return self._without_few(kept)

    def _without_few(self, config: Texts) -> TopicSettings:
        """Rules between settings concern few of them; the others must hold, or records might go."""
        for count in range(1, len(config)):
            for left_out in combinations(config, count):
                try:
                    return self.current.topic(
                        {name: text for name, text in config.items() if name not in left_out}
                    )
                except SettingError as broken:
                    log.debug("Nor without %s: %s", ", ".join(left_out), broken)
        return self.current.topic({})


def _readable(config: Texts, settings: Mapping[str, Setting], whose: str) -> dict[str, str]:
    """What can be read of it; what cannot is logged."""
    kept = {}
    for name in config.keys() & settings.keys():
        try:
            settings[name].parse(config[name])
        except SettingError as broken:
            log.error("The configuration of %s is ignored in part: %s", whose, broken)
        else:
            kept[name] = config[name]
    return kept


class CareSettings:
    """What looking after the logs depends on, as it is at the moment."""

    def __init__(self, settings: DynamicSettings) -> None:
        self._settings = settings

    @property
    def cleaner(self) -> CleanerSettings:
        return self._settings.current.cleaner

    @property
    def background_threads(self) -> int:
        return self._settings.current.broker.background_threads


class ProducerLimits:
    """What the logs' memory of producers depends on, as it is at the moment."""

    def __init__(self, settings: DynamicSettings) -> None:
        self._settings = settings

    @property
    def producer_id_expiration_ms(self) -> int:
        return self._settings.current.log.producer_id_expiration_ms

    @property
    def transaction_partition_verification_enable(self) -> bool:
        return self._settings.current.log.transaction_partition_verification_enable
