"""The cluster to restore to: its topics must exist, be large enough and be in a known state.

    created   on request, with as many partitions as the exported topic has
    rejected  with too few partitions; with records in them, unless an option says how to proceed

    --resume  the records are from this export, and the rest follows: the last record of each
              partition is checked before anything is sent
    --append  all records of the export are appended after them

Needs confluent-kafka.

Owner: the driver's only thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odradek.spark_jobs.scan.damage import ScanFailed

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

INSTALL_HINT = "confluent-kafka is missing: pip install 'odradek[cli]'"
REQUEST_TIMEOUT_S = 15.0
#: The group of consumers that only read; none of them commits.
GROUP_ID = "odradek-restore"


@dataclass(frozen=True, slots=True)
class TopicCreation:
    replication_factor: int = -1  # the broker's default
    configs: Mapping[str, str] = field(default_factory=dict)


def check_client_installed() -> None:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise ScanFailed(INSTALL_HINT) from error


class TargetCluster:
    """A client of the target cluster."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """``settings`` are librdkafka's and include ``bootstrap.servers``."""
        check_client_installed()
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self._settings: dict[str, Any] = {**settings, "log_level": "0"}
        self._bootstrap_servers = settings["bootstrap.servers"]
        try:
            self._admin: AdminClient = AdminClient(self._settings)
        except KafkaException as error:
            raise ScanFailed(_error_message(error)) from error

    def partition_counts(self) -> dict[str, int]:
        """Return the partition counts of all topics.  Raises ScanFailed if no broker answers."""
        from confluent_kafka import KafkaException

        try:
            topics = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        except KafkaException as error:
            raise ScanFailed(
                f"{self._bootstrap_servers}: no broker answers: {_error_message(error)}"
            ) from error
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def create_topic(self, topic: str, partition_count: int, creation: TopicCreation) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        new_topic = NewTopic(
            topic,
            num_partitions=partition_count,
            replication_factor=creation.replication_factor,
            config=dict(creation.configs),
        )
        try:
            self._admin.create_topics([new_topic], operation_timeout=REQUEST_TIMEOUT_S)[
                topic
            ].result()
        except KafkaException as error:
            raise ScanFailed(f"{topic} cannot be created: {_error_message(error)}") from error

    def watermark_offsets(self, topic: str, partitions: list[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset of each partition, and the offset after its last record."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer: Consumer = Consumer({**self._settings, "group.id": GROUP_ID})
        try:
            return {
                partition: consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=REQUEST_TIMEOUT_S
                )
                for partition in partitions
            }
        except KafkaException as error:
            raise ScanFailed(
                f"{topic}: its offsets cannot be fetched: {_error_message(error)}"
            ) from error
        finally:
            consumer.close()


def ensure_topics(
    target: TargetCluster,
    partitions_by_topic: Mapping[str, list[int]],
    partition_counts: Mapping[str, int],
    creation: TopicCreation | None,
) -> None:
    """Ensure that every topic in ``partitions_by_topic`` has its partitions.

    ``partition_counts`` gives the number of partitions for a topic that is created.
    Raises ScanFailed if a topic is missing or too small.
    """
    present = target.partition_counts()
    # Check all topics before one is created.
    for topic, partitions in partitions_by_topic.items():
        required = max(partitions) + 1
        if topic not in present:
            if creation is None:
                raise ScanFailed(f"topic {topic} does not exist: use --create to create it")
        elif present[topic] < required:
            raise ScanFailed(f"{topic} has {present[topic]} partitions, but {required} are needed")
    for topic in partitions_by_topic:
        if topic not in present and creation is not None:
            target.create_topic(topic, partition_counts[topic], creation)


def check_empty(target: TargetCluster, partitions_by_topic: Mapping[str, list[int]]) -> None:
    for topic, partitions in partitions_by_topic.items():
        for partition, (first, end) in target.watermark_offsets(topic, partitions).items():
            if end > first:
                raise ScanFailed(
                    f"{topic}-{partition} has records: --resume continues after the records of "
                    "this export, --append appends the whole export"
                )


def _error_message(exception: BaseException) -> str:
    """Return librdkafka's message without its error codes."""
    error = exception.args[0] if exception.args else exception
    text = error.str() if hasattr(error, "str") else str(error)
    return str(text).splitlines()[0]
