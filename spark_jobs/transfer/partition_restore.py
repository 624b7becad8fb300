"""Restore one exported partition: send its records through a producer, in order.

The producer is idempotent: its retries are written neither twice nor out of order.  Timestamps,
keys, values and headers are preserved.  The target assigns its own offsets, and there are no
transactions.

A restore can resume: a partition that holds only the first N records of the export has the end
offset N, and its last record is compared with the export.

Needs confluent-kafka.

Owner: the process that restores the partition; the producer's own thread only sends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.transfer.export_reader import (
    ExportedRecord,
    ExportFileRef,
    read_exported_records,
)
from odradek.spark_jobs.transfer.target_cluster import (
    GROUP_ID,
    REQUEST_TIMEOUT_S,
    check_client_installed,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

REPORT_INTERVAL_S = 10.0
_PRODUCER_DEFAULTS = {
    "linger.ms": "20",
    "message.max.bytes": "1000000000",  # the broker decides what is too large
    "log_level": "0",
}
#: Idempotence implies acks=all and few requests in flight: the order of records depends on it.
_PRODUCER_OVERRIDES = {"enable.idempotence": "true"}


class RestoreMode(Enum):
    """How to treat records that already exist in the target."""

    INTO_EMPTY = "the target must be empty"
    RESUME = "they are the first records of the export; continue after them"
    APPEND = "keep them and append the whole export"


@dataclass(frozen=True, slots=True)
class PartitionRestore:
    topic: str  # in the target cluster
    partition: int
    files: tuple[ExportFileRef, ...]
    mode: RestoreMode = RestoreMode.INTO_EMPTY

    @property
    def records(self) -> int:
        return sum(ref.file.records for ref in self.files)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class RestoreResult:
    topic: str
    partition: int
    records: int  # sent by this attempt
    present: int  # sent by an earlier attempt


def restore_partition(
    restore: PartitionRestore, settings: Mapping[str, str], report: Callable[[str], None]
) -> RestoreResult:
    """Restore a partition; ``settings`` are librdkafka's.  ScanFailed states the progress."""
    check_client_installed()
    present = _count_present_records(restore, settings) if restore.mode is RestoreMode.RESUME else 0
    producer = _RestoreProducer(
        restore, {**_PRODUCER_DEFAULTS, **settings, **_PRODUCER_OVERRIDES}, report
    )
    for record in islice(read_exported_records(restore.files), present, None):
        producer.send(record)
    producer.finish()
    return RestoreResult(restore.topic, restore.partition, producer.delivered, present)


class _RestoreProducer:
    def __init__(
        self, restore: PartitionRestore, settings: dict[str, str], report: Callable[[str], None]
    ) -> None:
        from confluent_kafka import KafkaException, Producer

        self._restore = restore
        self._report = report
        self._next_report_s = time.monotonic() + REPORT_INTERVAL_S
        self._sent = 0
        self.delivered = 0
        self._error: KafkaError | None = None
        try:
            self._producer: Producer = Producer(settings)
        except KafkaException as error:
            raise ScanFailed(str(error.args[0].str())) from error

    def send(self, record: ExportedRecord) -> None:
        from confluent_kafka import KafkaException

        arguments: dict[str, Any] = {
            "partition": self._restore.partition,
            "key": record.key,
            "value": record.value,
            "headers": record.headers,
            "on_delivery": self._on_delivery,
        }
        if record.timestamp_ms is not None:
            arguments["timestamp"] = record.timestamp_ms
        while True:
            try:
                self._producer.produce(self._restore.topic, **arguments)
                break
            except BufferError:  # the producer's queue is full
                self._poll(1.0)
            except KafkaException as error:
                reason = error.args[0].str()
                raise ScanFailed(f"{self._restore}: offset {record.offset}: {reason}") from error
        self._sent += 1
        self._poll(0)

    def finish(self) -> None:
        """Wait until every record has been delivered to the target."""
        while self.delivered < self._sent:
            self._poll(1.0)

    def _poll(self, seconds: float) -> None:
        self._producer.poll(seconds)
        if self._error is not None:
            raise ScanFailed(
                f"{self._restore}: failed after {self.delivered} record(s): {self._error.str()}"
            )
        now_s = time.monotonic()
        if now_s >= self._next_report_s:
            self._next_report_s = now_s + REPORT_INTERVAL_S
            self._report(f"{self._restore}: {self.delivered} of {self._restore.records} records")

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.delivered += 1
        elif self._error is None:
            self._error = error


def _count_present_records(restore: PartitionRestore, settings: Mapping[str, str]) -> int:
    """Count the exported records in the target.  Raises ScanFailed if it has other records."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    overrides = {"group.id": GROUP_ID, "enable.auto.commit": "false", "log_level": "0"}
    consumer: Consumer = Consumer({**settings, **overrides})
    topic_partition = TopicPartition(restore.topic, restore.partition)
    try:
        first, end = consumer.get_watermark_offsets(topic_partition, timeout=REQUEST_TIMEOUT_S)
        if end == 0:
            return 0
        consumer.assign([TopicPartition(restore.topic, restore.partition, end - 1)])
        last = consumer.poll(REQUEST_TIMEOUT_S)
    except KafkaException as error:
        raise ScanFailed(f"{restore}: {error.args[0].str()}") from error
    finally:
        consumer.close()
    record = next(islice(read_exported_records(restore.files), end - 1, None), None)
    if first > 0 or last is None or last.error() or record is None or not _is_same(last, record):
        raise ScanFailed(
            f"{restore} does not contain exactly the first {end} records of the export"
        )
    return int(end)


def _is_same(message: Message, record: ExportedRecord) -> bool:
    return (message.key(), message.value(), message.headers() or []) == (
        record.key,
        record.value,
        record.headers,
    )
