"""Makes tests/vectors/transaction_state.json anew, with brokers of two releases.

    .venv/bin/python -m tests.interop.record_transaction_state [FILE]

Producers commit, abort, are fenced, are late, and are forgotten, by raw requests; those of 4.1
speak the second version of transactions (KIP-890) too.  What the records say is what Kafka's own
classes read in them, and of markers what DumpLogSegments prints.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from odradek.protocol.internal.coordinator_record import VERSION, read_version_prefix
from odradek.protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from odradek.protocol.schema import Message
from tests.support.apache_kafka import ApacheKafka, ZooKeeper, kraft_broker, zookeeper_broker
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1, kafka_jars
from tests.support.log_dump import dumped_batches
from tests.support.message_oracle import KafkaClass, answers, parsed_json, read_question
from tests.support.recorded_transactions import (
    TRANSACTION_STATE,
    RecordedMarker,
    RecordedRecord,
    RecordedTransactions,
    records_of,
    save,
)
from tests.support.transaction_story import (
    PARTITIONS,
    PROPERTIES,
    TOPIC,
    transact,
    transact_in_second_version,
)


def main() -> None:
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else TRANSACTION_STATE
    with tempfile.TemporaryDirectory() as scratch:
        save(list(record(Path(scratch))), destination)


def record(directory: Path) -> Iterator[RecordedTransactions]:
    with ZooKeeper(directory / "zookeeper") as zookeeper:
        first = zookeeper_broker(
            directory / "first", zookeeper=zookeeper.address, properties=PROPERTIES
        )
        with first:
            transact(first.bootstrap)
        yield recorded(first, KAFKA_3_9)
    second = kraft_broker(directory / "second", properties=PROPERTIES)
    with second:
        transact(second.bootstrap)
        transact_in_second_version(second.bootstrap)
    yield recorded(second, KAFKA_4_1)


def recorded(broker: ApacheKafka, release: str) -> RecordedTransactions:
    """Of a broker that has stopped."""
    return RecordedTransactions(
        release=release,
        records=list(_records(broker, release)),
        markers=list(_markers(broker)),
    )


def _records(broker: ApacheKafka, release: str) -> Iterator[RecordedRecord]:
    found = records_of(broker.data_directory)
    keys = _shown(release, TransactionLogKey, [each.key for each in found])
    stored = [each.value for each in found if each.value is not None]
    values = iter(_shown(release, TransactionLogValue, stored))
    for each, shown in zip(found, keys, strict=True):
        yield RecordedRecord(
            partition=each.partition,
            key=each.key.hex(),
            value=None if each.value is None else each.value.hex(),
            shown_key=shown,
            shown_value=None if each.value is None else next(values),
        )


def _shown(release: str, message: type[Message], parts: list[bytes]) -> list[dict[str, object]]:
    """As Kafka's classes of this release read them."""
    questions = []
    for part in parts:
        place = KafkaClass(release, message.__name__, read_version_prefix(part))
        questions.append((place, read_question(place, part[VERSION.size :])))
    told = zip(questions, answers(questions), strict=True)
    return [parsed_json(place, answer) for (place, _), answer in told]


def _markers(broker: ApacheKafka) -> Iterator[RecordedMarker]:
    paths = [broker.segment(TOPIC, partition=each) for each in range(PARTITIONS)]
    for path, batches in dumped_batches(kafka_jars(broker.version), paths).items():
        content = path.read_bytes()
        for batch in batches:
            if batch.is_control:
                assert batch.marker is not None
                assert batch.producer_id is not None
                assert batch.producer_epoch is not None
                assert batch.coordinator_epoch is not None
                yield RecordedMarker(
                    batch=content[batch.position : batch.position + batch.size].hex(),
                    marker=batch.marker,
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    coordinator_epoch=batch.coordinator_epoch,
                )


if __name__ == "__main__":
    main()
