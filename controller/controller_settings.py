"""The settings of the controller.

The names, ranges and defaults are Kafka 3.9's.  How a topic is made when it does not say how, and
what each broker does with its replicas, is set elsewhere.
"""

from odradek.config.definition import Importance, UpdateMode, boolean, integer, long, text
from odradek.config.settings import Settings
from odradek.controller.metadata_version import LATEST, MetadataVersion


def _check_inter_broker_version(version: str) -> str | None:
    try:
        MetadataVersion.parse(version)
    except ValueError:
        return "must be a version of the protocol between brokers, such as 3.9 or 2.8-IV1"
    return None


class ControllerSettings(Settings):
    """Who may lead, when leaders are moved, and how brokers are spoken to."""

    inter_broker_protocol_version: str = text(
        "inter.broker.protocol.version",
        default=str(LATEST),
        check=_check_inter_broker_version,
        doc="The version of Kafka whose protocol brokers speak among themselves: while a cluster "
        "is upgraded broker by broker, that of the oldest.",
    )
    unclean_leader_election_enable: bool = boolean(
        "unclean.leader.election.enable",
        default=False,
        update=UpdateMode.CLUSTER,
        importance=Importance.HIGH,
        doc="Whether a replica that was not in sync may lead when no other can, though records "
        "may be lost.",
    )
    auto_leader_rebalance_enable: bool = boolean(
        "auto.leader.rebalance.enable",
        default=True,
        importance=Importance.HIGH,
        doc="Whether partitions are given back to their preferred leaders from time to time.",
    )
    leader_imbalance_check_interval_seconds: int = long(
        "leader.imbalance.check.interval.seconds",
        default=300,
        at_least=1,
        importance=Importance.HIGH,
        doc="How often that is looked at.",
    )
    leader_imbalance_per_broker_percentage: int = integer(
        "leader.imbalance.per.broker.percentage",
        default=10,
        importance=Importance.HIGH,
        doc="How many in a hundred of the partitions that prefer a broker must be led by others "
        "before they are given back to it.",
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
        doc="The highest `broker.id` that may be set; ids that are generated begin after it.",
    )
    broker_id_generation_enable: bool = boolean(
        "broker.id.generation.enable",
        default=True,
        doc="Whether a broker that was given no `broker.id` makes one.",
    )

    @property
    def metadata_version(self) -> MetadataVersion:
        return MetadataVersion.parse(self.inter_broker_protocol_version)
