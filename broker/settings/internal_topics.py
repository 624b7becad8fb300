"""The settings of the topics in which brokers keep state: offsets of groups, transactions.

The names, ranges and defaults are Kafka 3.9's.  On the embedded store there is one broker for ever,
so that the defaults could never be met: ``ONE_BROKER`` stands in their place there.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.config.definition import Importance, integer, short
from odradek.config.settings import Settings
from odradek.controller.topic_planning import CreatableTopic


class InternalTopicSettings(Settings):
    """How ``__consumer_offsets`` and ``__transaction_state`` are made."""

    offsets_partitions: int = integer(
        "offsets.topic.num.partitions",
        default=50,
        at_least=1,
        importance=Importance.HIGH,
        doc="The partitions of `__consumer_offsets`.  Not to be changed once it is there.",
    )
    offsets_replication_factor: int = short(
        "offsets.topic.replication.factor",
        default=3,
        at_least=1,
        importance=Importance.HIGH,
        doc="The replicas of each.  Without `zookeeper.connect` it is 1 unless it is set.",
    )
    offsets_segment_bytes: int = integer(
        "offsets.topic.segment.bytes",
        default=100 * 1024 * 1024,
        at_least=1,
        importance=Importance.HIGH,
        doc="How large their segments may grow: small, since they are compacted, and read whole.",
    )
    transactions_partitions: int = integer(
        "transaction.state.log.num.partitions",
        default=50,
        at_least=1,
        importance=Importance.HIGH,
        doc="The partitions of `__transaction_state`.  Not to be changed once it is there.",
    )
    transactions_replication_factor: int = short(
        "transaction.state.log.replication.factor",
        default=3,
        at_least=1,
        importance=Importance.HIGH,
        doc="The replicas of each.  Without `zookeeper.connect` it is 1 unless it is set.",
    )
    transactions_min_isr: int = integer(
        "transaction.state.log.min.isr",
        default=2,
        at_least=1,
        importance=Importance.HIGH,
        doc="How many of them must be in sync.  Without `zookeeper.connect` it is 1 unless it is "
        "set.",
    )
    transactions_segment_bytes: int = integer(
        "transaction.state.log.segment.bytes",
        default=100 * 1024 * 1024,
        at_least=1,
        importance=Importance.HIGH,
        doc="How large their segments may grow.",
    )

    def creatable_topic(self, topic: str) -> CreatableTopic | None:
        """As it is to be created; None if it is no topic of the broker's own."""
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
        # What was committed must not be lost, whatever other topics may.
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
