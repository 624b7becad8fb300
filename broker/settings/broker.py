"""The settings of a broker as such: who it is, what it answers by default, how it leaves.

The names, ranges and defaults are Kafka 3.9's.  Whether ids are generated, and from which on, is
the controller's affair (controller/controller_settings.py).
"""

from odradek.config.definition import Importance, UpdateMode, boolean, integer, long, text
from odradek.config.settings import Settings


class BrokerSettings(Settings):
    """One broker."""

    id: int = integer(
        "broker.id",
        default=-1,
        importance=Importance.HIGH,
        doc="The number that no other broker of the cluster has; -1 has one generated.",
    )
    rack: str | None = text(
        "broker.rack",
        default=None,
        doc="Where the broker stands: the replicas of a partition are spread over racks.",
    )
    background_threads: int = integer(
        "background.threads",
        default=10,
        at_least=1,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="How many logs are synced, trimmed or removed at once.",
    )
    auto_create_topics_enable: bool = boolean(
        "auto.create.topics.enable",
        default=True,
        importance=Importance.HIGH,
        doc="Whether a topic is made when a client that allows it asks for its metadata.",
    )
    num_partitions: int = integer(
        "num.partitions",
        default=1,
        at_least=1,
        doc="How many partitions a topic gets that does not say.",
    )
    default_replication_factor: int = integer(
        "default.replication.factor",
        default=1,
        doc="How many replicas the partitions of a topic get that does not say.",
    )
    controller_socket_timeout_ms: int = integer(
        "controller.socket.timeout.ms",
        default=30_000,
        doc="For how long a broker may take to answer the controller, and the controller a broker.",
    )
    request_timeout_ms: int = integer(
        "request.timeout.ms",
        default=30_000,
        importance=Importance.HIGH,
        doc="For how long another broker may take to answer, and replicas to have what a "
        "coordinator writes to partitions.",
    )
    controlled_shutdown_enable: bool = boolean(
        "controlled.shutdown.enable",
        default=True,
        doc="Whether a broker that stops first has its partitions led by others.",
    )
    controlled_shutdown_max_retries: int = integer(
        "controlled.shutdown.max.retries",
        default=3,
        doc="How often that is tried again.",
    )
    controlled_shutdown_retry_backoff_ms: int = long(
        "controlled.shutdown.retry.backoff.ms",
        default=5_000,
        doc="How long to wait in between.",
    )
    fetch_max_bytes: int = integer(
        "fetch.max.bytes",
        default=55 * 1024 * 1024,
        at_least=1024,
        doc="The most that one fetch is answered with, but for a single batch that is larger.",
    )
    fetch_session_slots: int = integer(
        "max.incremental.fetch.session.cache.slots",
        default=1000,
        at_least=0,
        doc="How many fetch sessions are remembered.",
    )
    described_partitions_max: int = integer(
        "max.request.partition.size.limit",
        default=2000,
        at_least=1,
        doc="How many partitions one DescribeTopicPartitions is answered with at most.",
    )
