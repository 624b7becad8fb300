"""Where an export is to be restored to: topics that are there, large enough, and in a known state.

    created   on request, with as many partitions as the exported topic has
    refused   with too few partitions; with records in them, unless somebody has said what to do

    --resume  they are from this export, and more are to follow: each partition is checked by its
              last record before anything is sent
    --append  all records are to come behind them

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

INSTALL = "confluent-kafka is missing: pip install 'odradek[cli]'"
ANSWER_S = 15.0
#: The group of consumers that only look; none of them commits.
GROUP = "odradek-restore"


@dataclass(frozen=True, slots=True)
class Creation:
    replication_factor: int = -1  # the broker's default
    configs: Mapping[str, str] = field(default_factory=dict)


def check_client() -> None:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as missing:
        raise ScanFailed(INSTALL) from missing


class Target:
    """A cluster, as its clients are told to find it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """``settings`` are those of librdkafka, ``bootstrap.servers`` among them."""
        check_client()
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self._settings: dict[str, Any] = {**settings, "log_level": "0"}
        self._servers = settings["bootstrap.servers"]
        try:
            self._admin: AdminClient = AdminClient(self._settings)
        except KafkaException as wrong:
            raise ScanFailed(_why(wrong)) from wrong

    def partition_counts(self) -> dict[str, int]:
        """Of all topics there are; ScanFailed if nobody answers."""
        from confluent_kafka import KafkaException

        try:
            topics = self._admin.list_topics(timeout=ANSWER_S).topics
        except KafkaException as failure:
            raise ScanFailed(f"{self._servers}: no broker answers: {_why(failure)}") from failure
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def create(self, topic: str, partition_count: int, creation: Creation) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        wanted = NewTopic(
            topic,
            num_partitions=partition_count,
            replication_factor=creation.replication_factor,
            config=dict(creation.configs),
        )
        try:
            self._admin.create_topics([wanted], operation_timeout=ANSWER_S)[topic].result()
        except KafkaException as failure:
            raise ScanFailed(f"{topic} cannot be created: {_why(failure)}") from failure

    def end_offsets(self, topic: str, partitions: list[int]) -> dict[int, tuple[int, int]]:
        """The first offset of each partition, and the one after its last."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer: Consumer = Consumer({**self._settings, "group.id": GROUP})
        try:
            return {
                each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=ANSWER_S)
                for each in partitions
            }
        except KafkaException as failure:
            raise ScanFailed(
                f"{topic}: its offsets cannot be asked for: {_why(failure)}"
            ) from failure
        finally:
            consumer.close()


def prepare(
    target: Target,
    needed: Mapping[str, list[int]],
    partition_counts: Mapping[str, int],
    creation: Creation | None,
) -> None:
    """Every topic of ``needed`` has these partitions when it returns; ScanFailed if not.

    ``partition_counts`` says how many a topic gets that is created.
    """
    present = target.partition_counts()
    # All are looked at before one is created.
    for topic, partitions in needed.items():
        least = max(partitions) + 1
        if topic not in present:
            if creation is None:
                raise ScanFailed(f"there is no topic {topic}: --create makes it")
        elif present[topic] < least:
            raise ScanFailed(f"{topic} has {present[topic]} partitions, and {least} are needed")
    for topic in needed:
        if topic not in present and creation is not None:
            target.create(topic, partition_counts[topic], creation)


def check_empty(target: Target, needed: Mapping[str, list[int]]) -> None:
    for topic, partitions in needed.items():
        for partition, (first, end) in target.end_offsets(topic, partitions).items():
            if end > first:
                raise ScanFailed(
                    f"{topic}-{partition} has records: --resume goes on behind those of this "
                    "export, --append adds all of it"
                )


def _why(failure: BaseException) -> str:
    """librdkafka's own words, without its code names."""
    error = failure.args[0] if failure.args else failure
    told = error.str() if hasattr(error, "str") else str(error)
    return str(told).splitlines()[0]
