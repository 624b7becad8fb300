"""Settings of the internal topics for committed offsets and for transactions.

Names, ranges and defaults are Kafka 3.9's.  The embedded store supports only one broker, which can
never satisfy the default replication factors: ``STANDALONE_DEFAULTS`` replaces them there.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.config.definition import Importance, integer, short
from odradek.config.settings import Settings
from odradek.controller.topic_planning import CreatableTopic


class InternalTopicSettings(Settings):
    """Settings for the creation of ``__consumer_offsets`` and ``__transaction_state``."""

    offsets_partitions: int = integer(
        "offsets.topic.num.partitions",
        default=50,
        at_least=1,
        importance=Importance.HIGH,
        doc="The number of partitions of `__consumer_offsets`; do not change it after creation.",
    )
    offsets_replication_factor: int = short(
        "offsets.topic.replication.factor",
        default=3,
        at_least=1,
        importance=Importance.HIGH,
        doc="The replication factor of `__consumer_offsets`; 1 if neither it nor "
        "`zookeeper.connect` is set.",
    )
    offsets_segment_bytes: int = integer(
        "offsets.topic.segment.bytes",
        default=100 * 1024 * 1024,
        at_least=1,
        importance=Importance.HIGH,
        doc="The segment size of `__consumer_offsets`; small segments make compaction and loading "
        "faster.",
    )
    transactions_partitions: int = integer(
        "transaction.state.log.num.partitions",
        default=50,
        at_least=1,
        importance=Importance.HIGH,
        doc="The number of partitions of `__transaction_state`; do not change it after creation.",
    )
    transactions_replication_factor: int = short(
        "transaction.state.log.replication.factor",
        default=3,
        at_least=1,
        importance=Importance.HIGH,
        doc="The replication factor of `__transaction_state`; 1 if neither it nor "
        "`zookeeper.connect` is set.",
    )
    transactions_min_isr: int = integer(
        "transaction.state.log.min.isr",
        default=2,
        at_least=1,
        importance=Importance.HIGH,
        doc="The `min.insync.replicas` of `__transaction_state`; 1 if neither it nor "
        "`zookeeper.connect` is set.",
    )
    transactions_segment_bytes: int = integer(
        "transaction.state.log.segment.bytes",
        default=100 * 1024 * 1024,
        at_least=1,
        importance=Importance.HIGH,
        doc="The segment size of `__transaction_state`.",
    )

    def creatable_topic(self, topic: str) -> CreatableTopic | None:
        """Return the topic as it is to be created, or None if it is not an internal topic."""
        if topic == CONSUMER_OFFSETS:
            return self._offsets_topic
        return self._transaction_state_topic if topic == TRANSACTION_STATE else None

    @property
    def _offsets_topic(self) -> CreatableTopic:
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self.offsets_segment_bytes),
        }
        return CreatableTopic(
            name=CONSUMER_OFFSETS,
            num_partitions=self.offsets_partitions,
            replication_factor=self.offsets_replication_factor,
            assignments=[],
            configs=_config_entries(configs),
        )

    @property
    def _transaction_state_topic(self) -> CreatableTopic:
        # Committed transactions must not be lost, even if other topics allow unclean elections.
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(self.transactions_min_isr),
            "segment.bytes": str(self.transactions_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
        return CreatableTopic(
            name=TRANSACTION_STATE,
            num_partitions=self.transactions_partitions,
            replication_factor=self.transactions_replication_factor,
            assignments=[],
            configs=_config_entries(configs),
        )


STANDALONE_DEFAULTS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


def _config_entries(configs: Mapping[str, str]) -> list[CreatableTopic.Config]:
    return [CreatableTopic.Config(name=name, value=text) for name, text in configs.items()]
