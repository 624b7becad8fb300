"""The records of one exported partition, through a producer, in their order.

The producer is idempotent: what it has to send again it does not write twice, nor out of order.
Timestamps, keys, values and headers are as they were; offsets are the target's own, and there are
no transactions.

What is in the target already can be gone on from: a partition that holds nothing but the first N
records of the export has N as its end offset, and the last of them is compared.

Needs confluent-kafka.

Owner: whoever restores the partition; the producer's own thread only sends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.transfer.export_rows import ExportedRecord, PlacedFile, exported_records
from odradek.spark_jobs.transfer.target import ANSWER_S, GROUP, check_client

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

REPORT_S = 10.0
_DEFAULTS = {
    "linger.ms": "20",
    "message.max.bytes": "1000000000",  # what is too large is for the broker to say
    "log_level": "0",
}
#: And with it acks=all, and few requests at a time: order depends on it.
_IDEMPOTENT = {"enable.idempotence": "true"}


class Presence(Enum):
    """What is to become of records that the target has."""

    NONE = "there are none"
    RESUME = "they are the first ones of the export"
    APPEND = "they stay, and all of the export follows"


@dataclass(frozen=True, slots=True)
class PartitionRestore:
    topic: str  # of the target
    partition: int
    files: tuple[PlacedFile, ...]
    presence: Presence = Presence.NONE

    @property
    def records(self) -> int:
        return sum(each.file.records for each in self.files)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Restored:
    topic: str
    partition: int
    records: int  # sent now
    present: int  # sent by an earlier attempt


def restore_partition(
    restore: PartitionRestore, settings: Mapping[str, str], report: Callable[[str], None]
) -> Restored:
    """``settings`` are those of librdkafka; ScanFailed says how far it has come."""
    check_client()
    present = _present(restore, settings) if restore.presence is Presence.RESUME else 0
    sending = _Sending(restore, {**_DEFAULTS, **settings, **_IDEMPOTENT}, report)
    for record in islice(exported_records(restore.files), present, None):
        sending.send(record)
    sending.finish()
    return Restored(restore.topic, restore.partition, sending.delivered, present)


class _Sending:
    def __init__(
        self, restore: PartitionRestore, settings: dict[str, str], report: Callable[[str], None]
    ) -> None:
        from confluent_kafka import KafkaException, Producer

        self._restore = restore
        self._report = report
        self._report_at_s = time.monotonic() + REPORT_S
        self._sent = 0
        self.delivered = 0
        self._failure: KafkaError | None = None
        try:
            self._producer: Producer = Producer(settings)
        except KafkaException as wrong:
            raise ScanFailed(str(wrong.args[0].str())) from wrong

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
            except BufferError:  # its queue is full
                self._wait(1.0)
            except KafkaException as failure:
                why = failure.args[0].str()
                raise ScanFailed(f"{self._restore}: offset {record.offset}: {why}") from failure
        self._sent += 1
        self._wait(0)

    def finish(self) -> None:
        """Everything is in the target when this returns."""
        while self.delivered < self._sent:
            self._wait(1.0)

    def _wait(self, seconds: float) -> None:
        self._producer.poll(seconds)
        if self._failure is not None:
            raise ScanFailed(
                f"{self._restore}: after {self.delivered} records: {self._failure.str()}"
            )
        now_s = time.monotonic()
        if now_s >= self._report_at_s:
            self._report_at_s = now_s + REPORT_S
            self._report(f"{self._restore}: {self.delivered} of {self._restore.records} records")

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.delivered += 1
        elif self._failure is None:
            self._failure = error


def _present(restore: PartitionRestore, settings: Mapping[str, str]) -> int:
    """How many records of the export the target has; ScanFailed if it has others."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {"group.id": GROUP, "enable.auto.commit": "false", "log_level": "0"}
    consumer: Consumer = Consumer({**settings, **own})
    place = TopicPartition(restore.topic, restore.partition)
    try:
        first, end = consumer.get_watermark_offsets(place, timeout=ANSWER_S)
        if end == 0:
            return 0
        consumer.assign([TopicPartition(restore.topic, restore.partition, end - 1)])
        last = consumer.poll(ANSWER_S)
    except KafkaException as failure:
        raise ScanFailed(f"{restore}: {failure.args[0].str()}") from failure
    finally:
        consumer.close()
    record = next(islice(exported_records(restore.files), end - 1, None), None)
    if first > 0 or last is None or last.error() or record is None or not _is_same(last, record):
        raise ScanFailed(f"{restore} has not just the first {end} records of the export")
    return int(end)


def _is_same(found: Message, record: ExportedRecord) -> bool:
    return (found.key(), found.value(), found.headers() or []) == (
        record.key,
        record.value,
        record.headers,
    )
