"""General settings of a broker: its identity, its defaults and its shutdown.

Names, ranges and defaults are Kafka 3.9's.  The settings for generated broker ids are in
controller/controller_settings.py.
"""

from odradek.config.definition import Importance, UpdateMode, boolean, integer, long, text
from odradek.config.settings import Settings


class BrokerSettings(Settings):
    """The general settings of one broker."""

    id: int = integer(
        "broker.id",
        default=-1,
        importance=Importance.HIGH,
        doc="The id of this broker, unique in the cluster; -1 generates one.",
    )
    rack: str | None = text(
        "broker.rack",
        default=None,
        doc="The rack of this broker; the replicas of a partition are spread over racks.",
    )
    background_threads: int = integer(
        "background.threads",
        default=10,
        at_least=1,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The number of logs that are flushed, trimmed or deleted in parallel.",
    )
    auto_create_topics_enable: bool = boolean(
        "auto.create.topics.enable",
        default=True,
        importance=Importance.HIGH,
        doc="Whether a metadata request for a topic creates the topic if the client allows it.",
    )
    num_partitions: int = integer(
        "num.partitions",
        default=1,
        at_least=1,
        doc="The number of partitions of a new topic that does not specify it.",
    )
    default_replication_factor: int = integer(
        "default.replication.factor",
        default=1,
        doc="The replication factor of a new topic that does not specify it.",
    )
    controller_socket_timeout_ms: int = integer(
        "controller.socket.timeout.ms",
        default=30_000,
        doc="The timeout of requests between brokers and the controller, in both directions.",
    )
    request_timeout_ms: int = integer(
        "request.timeout.ms",
        default=30_000,
        importance=Importance.HIGH,
        doc="The timeout of requests to other brokers, and of the replication of records that a "
        "coordinator writes.",
    )
    controlled_shutdown_enable: bool = boolean(
        "controlled.shutdown.enable",
        default=True,
        doc="Whether a broker moves its leaderships to other brokers before it stops.",
    )
    controlled_shutdown_max_retries: int = integer(
        "controlled.shutdown.max.retries",
        default=3,
        doc="The number of retries of the controlled shutdown.",
    )
    controlled_shutdown_retry_backoff_ms: int = long(
        "controlled.shutdown.retry.backoff.ms",
        default=5_000,
        doc="The pause before a retry of the controlled shutdown.",
    )
    fetch_max_bytes: int = integer(
        "fetch.max.bytes",
        default=55 * 1024 * 1024,
        at_least=1024,
        doc="The maximum size of a fetch response; a single larger batch is still returned.",
    )
    fetch_session_slots: int = integer(
        "max.incremental.fetch.session.cache.slots",
        default=1000,
        at_least=0,
        doc="The maximum number of cached incremental fetch sessions.",
    )
    described_partitions_max: int = integer(
        "max.request.partition.size.limit",
        default=2000,
        at_least=1,
        doc="The maximum number of partitions in a DescribeTopicPartitions response.",
    )
