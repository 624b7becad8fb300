"""All settings of a server: every table, read from the same layers of text.

    settings = ServerSettings.read({Layer.FILE: {"log.segment.bytes": "1048576"}})
    settings.log.segment_bytes          # 1048576
    settings.describe("log.roll.ms")    # as DescribeConfigs shows it

What no table declares is kept with the layers all the same: a plug-in's setting, or one of Kafka's
that has no effect here, is shown to whoever asks, its value hidden, since it might be a secret.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from odradek.broker.settings.consumer_groups import ConsumerGroupSettings, OneGroupSettings
from odradek.broker.settings.groups import GroupSettings
from odradek.broker.settings.internal_topics import ONE_BROKER, InternalTopicSettings
from odradek.broker.settings.network import NetworkSettings
from odradek.broker.settings.replication import ReplicationQuotas, ReplicationSettings
from odradek.broker.settings.server import BrokerSettings
from odradek.broker.settings.transactions import TransactionSettings
from odradek.config.definition import Layer, Setting, SettingError
from odradek.config.settings import Description, Settings, unknown_names
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.settings import ZooKeeperSettings
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.log_settings import LogSettings
from odradek.storage.settings import TopicSettings

Texts = Mapping[str, str]

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

#: Every setting of a server by its name.
BY_NAME: Mapping[str, Setting] = {
    name: setting for table in TABLES for name, setting in table.by_name.items()
}

#: Settings that fall back to one which Kafka does not call a synonym of theirs.
_WITHOUT_SYNONYMS = frozenset({"log.dirs", "zookeeper.connection.timeout.ms"})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The tables at one moment; they agree with one another."""

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
    #: In no table of a server: what a file says of them has no effect.
    quotas: ReplicationQuotas
    #: With secrets in them.
    layers: Mapping[Layer, Texts] = field(repr=False)

    @classmethod
    def read(cls, layers: Mapping[Layer, Texts]) -> Self:
        """Raises SettingError."""
        file = layers.get(Layer.FILE, {})
        if not file.get("zookeeper.connect"):
            layers = {**layers, Layer.DEFAULT: ONE_BROKER}
        settings = cls(
            BrokerSettings.read(layers),
            NetworkSettings.read(layers),
            LogSettings.read(layers),
            CleanerSettings.read(layers),
            ReplicationSettings.read(layers),
            GroupSettings.read(layers),
            ConsumerGroupSettings.read(layers),
            TransactionSettings.read(layers),
            InternalTopicSettings.read(layers),
            ControllerSettings.read(layers),
            ZooKeeperSettings.read(layers),
            ReplicationQuotas.read(
                {layer: layers.get(layer, {}) for layer in (Layer.CLUSTER, Layer.BROKER)}
            ),
            layers,
        )
        settings.check()
        return settings

    def with_layer(self, layer: Layer, texts: Texts) -> Self:
        """After all that the layer says has become something else."""
        return self.read({**self.layers, layer: texts})

    def check(self) -> None:
        """The rules between tables."""
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
    def defaults_of_topics(self) -> tuple[Settings, ...]:
        """The tables that a topic's settings stand on."""
        return (self.log, self.cleaner)

    def topic(self, config: Texts) -> TopicSettings:
        """Of a topic that is configured so; raises SettingError."""
        return TopicSettings.read({Layer.TOPIC: config}, server=self.defaults_of_topics)

    def group(self, config: Texts) -> OneGroupSettings:
        """Of a group of the consumer protocol that is configured so; raises SettingError."""
        return OneGroupSettings.read({Layer.GROUP: config}, server=[self.consumer_groups])

    @property
    def is_alone(self) -> bool:
        """Whether the store is the embedded one, so that there is no other broker."""
        return not self.zookeeper.connect

    def describe(self, name: str) -> Description:
        """KeyError if no table declares it."""
        table = next((table for table in self.tables if name in table.by_name), None)
        if table is None:
            raise KeyError(name)
        description = table.describe(name)
        if name in _WITHOUT_SYNONYMS:
            own = tuple(each for each in description.synonyms if each.name == name)
            return replace(description, synonyms=own)
        return description

    def texts(self, layer: Layer) -> Texts:
        return self.layers.get(layer, {})

    def undeclared(self) -> Iterator[str]:
        """What is written somewhere, and in no table; each once."""
        written = dict.fromkeys(name for texts in self.layers.values() for name in texts)
        yield from unknown_names(written, TABLES)
