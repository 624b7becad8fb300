"""The settings of the controller.

Names, ranges and defaults are those of Kafka 3.9.  The defaults of new topics and the settings of
replication are defined elsewhere.
"""

from odradek.config.definition import Importance, UpdateMode, boolean, integer, long, text
from odradek.config.settings import Settings
from odradek.controller.metadata_version import LATEST, MetadataVersion


def _check_inter_broker_version(version: str) -> str | None:
    try:
        MetadataVersion.parse(version)
    except ValueError:
        return "must be an inter-broker protocol version, such as 3.9 or 2.8-IV1"
    return None


class ControllerSettings(Settings):
    """Leader elections, leader rebalancing, topic deletion, broker ids and protocol version."""

    inter_broker_protocol_version: str = text(
        "inter.broker.protocol.version",
        default=str(LATEST),
        check=_check_inter_broker_version,
        doc="The version of the protocol between brokers. During a rolling upgrade it must be the "
        "version of the oldest broker.",
    )
    unclean_leader_election_enable: bool = boolean(
        "unclean.leader.election.enable",
        default=False,
        update=UpdateMode.CLUSTER,
        importance=Importance.HIGH,
        doc="Whether a replica outside the ISR may be elected as leader as a last resort. Records "
        "may be lost.",
    )
    auto_leader_rebalance_enable: bool = boolean(
        "auto.leader.rebalance.enable",
        default=True,
        importance=Importance.HIGH,
        doc="Whether the controller periodically moves leadership back to preferred replicas.",
    )
    leader_imbalance_check_interval_seconds: int = long(
        "leader.imbalance.check.interval.seconds",
        default=300,
        at_least=1,
        importance=Importance.HIGH,
        doc="How often the controller checks the leader imbalance, in seconds.",
    )
    leader_imbalance_per_broker_percentage: int = integer(
        "leader.imbalance.per.broker.percentage",
        default=10,
        importance=Importance.HIGH,
        doc="The controller moves leadership back to a broker if others lead more than this "
        "percentage of the partitions that prefer it.",
    )
    delete_topic_enable: bool = boolean(
        "delete.topic.enable",
        default=True,
        importance=Importance.HIGH,
        doc="Whether topics can be deleted.",
    )
    reserved_broker_max_id: int = integer(
        "reserved.broker.max.id",
        default=1000,
        at_least=0,
        doc="The highest `broker.id` that can be configured; generated ids are higher.",
    )
    broker_id_generation_enable: bool = boolean(
        "broker.id.generation.enable",
        default=True,
        doc="Whether a broker without a configured `broker.id` generates one.",
    )

    @property
    def metadata_version(self) -> MetadataVersion:
        return MetadataVersion.parse(self.inter_broker_protocol_version)
