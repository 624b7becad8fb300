"""All settings of a broker: every table, read from the same sources.  Kafka: KafkaConfig.

    settings = ServerSettings.read({ConfigSource.FILE: {"log.segment.bytes": "1048576"}})
    settings.log.segment_bytes          # 1048576
    settings.describe("log.roll.ms")    # as DescribeConfigs returns it

The sources also keep the settings that no table declares: those of plugins, and Kafka's settings
that have no effect here.  DescribeConfigs returns them with a hidden value, which might be secret.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from odradek.broker.settings.broker import BrokerSettings
from odradek.broker.settings.consumer_groups import ConsumerGroupSettings, OneGroupSettings
from odradek.broker.settings.groups import GroupSettings
from odradek.broker.settings.internal_topics import STANDALONE_DEFAULTS, InternalTopicSettings
from odradek.broker.settings.network import NetworkSettings
from odradek.broker.settings.replication import ReplicationQuotas, ReplicationSettings
from odradek.broker.settings.transactions import TransactionSettings
from odradek.config.definition import ConfigSource, Setting, SettingError
from odradek.config.settings import ConfigDescription, Settings, unknown_names
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.zookeeper_settings import ZooKeeperSettings
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.log_settings import LogSettings
from odradek.storage.settings import TopicSettings

ConfigMap = Mapping[str, str]

TABLES: tuple[type[Settings], ...] = (
    BrokerSettings,
    NetworkSettings,
    LogSettings,
    CleanerSettings,
    ReplicationSettings,
    GroupSettings,
    ConsumerGroupSettings,
    TransactionSettings,
    InternalTopicSettings,
    ControllerSettings,
    ZooKeeperSettings,
)

#: Every setting of a broker by its name.
SETTINGS_BY_NAME: Mapping[str, Setting] = {
    name: setting for table in TABLES for name, setting in table.by_name.items()
}

#: Settings with a fallback to another setting that Kafka does not report as their synonym.
_WITHOUT_SYNONYMS = frozenset({"log.dirs", "zookeeper.connection.timeout.ms"})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The tables at one moment; they are consistent with each other."""

    broker: BrokerSettings
    network: NetworkSettings
    log: LogSettings
    cleaner: CleanerSettings
    replication: ReplicationSettings
    groups: GroupSettings
    consumer_groups: ConsumerGroupSettings
    transactions: TransactionSettings
    internal_topics: InternalTopicSettings
    controller: ControllerSettings
    zookeeper: ZooKeeperSettings
    #: Not in TABLES: values in a file have no effect.
    quotas: ReplicationQuotas
    #: These contain secrets.
    configs: Mapping[ConfigSource, ConfigMap] = field(repr=False)

    @classmethod
    def read(cls, configs: Mapping[ConfigSource, ConfigMap]) -> Self:
        """Raises SettingError if a value breaks a rule."""
        file = configs.get(ConfigSource.FILE, {})
        if not file.get("zookeeper.connect"):
            configs = {**configs, ConfigSource.DEFAULT: STANDALONE_DEFAULTS}
        settings = cls(
            BrokerSettings.read(configs),
            NetworkSettings.read(configs),
            LogSettings.read(configs),
            CleanerSettings.read(configs),
            ReplicationSettings.read(configs),
            GroupSettings.read(configs),
            ConsumerGroupSettings.read(configs),
            TransactionSettings.read(configs),
            InternalTopicSettings.read(configs),
            ControllerSettings.read(configs),
            ZooKeeperSettings.read(configs),
            ReplicationQuotas.read(
                {
                    layer: configs.get(layer, {})
                    for layer in (ConfigSource.CLUSTER, ConfigSource.BROKER)
                }
            ),
            configs,
        )
        settings.check()
        return settings

    def with_configs(self, source: ConfigSource, configs: ConfigMap) -> Self:
        """Replace all configurations from this source."""
        return self.read({**self.configs, source: configs})

    def check(self) -> None:
        """Check the rules between tables.  Raises SettingError."""
        number, highest = self.broker.id, self.controller.reserved_broker_max_id
        if self.controller.broker_id_generation_enable:
            if not -1 <= number <= highest:
                rule = f"must be between -1 and reserved.broker.max.id={highest}"
                raise SettingError("broker.id", str(number), rule)
        elif number < 0:
            rule = "must be at least 0, since broker.id.generation.enable=false"
            raise SettingError("broker.id", str(number), rule)

    @property
    def tables(self) -> tuple[Settings, ...]:
        return (
            self.broker,
            self.network,
            self.log,
            self.cleaner,
            self.replication,
            self.groups,
            self.consumer_groups,
            self.transactions,
            self.internal_topics,
            self.controller,
            self.zookeeper,
        )

    @property
    def topic_default_tables(self) -> tuple[Settings, ...]:
        """The tables that contain the defaults of topic settings."""
        return (self.log, self.cleaner)

    def topic(self, config: ConfigMap) -> TopicSettings:
        """The settings of a topic with this configuration.  Raises SettingError."""
        return TopicSettings.read(
            {ConfigSource.TOPIC: config}, server_tables=self.topic_default_tables
        )

    def group(self, config: ConfigMap) -> OneGroupSettings:
        """The settings of a group with this configuration.  Raises SettingError."""
        return OneGroupSettings.read(
            {ConfigSource.GROUP: config}, server_tables=[self.consumer_groups]
        )

    @property
    def uses_embedded_store(self) -> bool:
        """Whether the store is the embedded one; then there is no other broker."""
        return not self.zookeeper.connect

    def describe(self, name: str) -> ConfigDescription:
        """Raises KeyError if no table declares the setting."""
        table = next((table for table in self.tables if name in table.by_name), None)
        if table is None:
            raise KeyError(name)
        description = table.describe(name)
        if name in _WITHOUT_SYNONYMS:
            own = tuple(each for each in description.synonyms if each.name == name)
            return replace(description, synonyms=own)
        return description

    def configs_from(self, source: ConfigSource) -> ConfigMap:
        return self.configs.get(source, {})

    def undeclared_names(self) -> Iterator[str]:
        """Yield each configured name that no table declares, once."""
        names = dict.fromkeys(name for texts in self.configs.values() for name in texts)
        yield from unknown_names(names, TABLES)
