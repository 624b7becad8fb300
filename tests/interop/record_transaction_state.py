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

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.internal.log_record import VERSION, part_version
from odradek.protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from odradek.protocol.records.record_set import batches_of_any_magic
from odradek.protocol.schema import Message
from tests.support.apache_kafka import ApacheKafka, ZooKeeper, kraft_broker, zookeeper_broker
from tests.support.group_members import wait_until
from tests.support.group_wire import find_coordinator
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1, kafka_jars
from tests.support.log_dump import dumped_batches
from tests.support.message_oracle import KafkaClass, answers, parsed_json, read_question
from tests.support.partition_client import create_topic
from tests.support.recorded_transactions import (
    TRANSACTION_STATE,
    RecordedMarker,
    RecordedRecord,
    RecordedTransactions,
    save,
)
from tests.support.transaction_wire import WireProducer, settled, state_of
from tests.support.wire_client import call

TOPIC, PARTITIONS = "events", 2
SHORT_MS = 500
#: In which a producer tells that it speaks the second version.
SECOND_PRODUCE, SECOND_END = 12, 5
TRANSACTIONAL_ID_NOT_FOUND = 105
PROPERTIES = {
    "transactional.id.expiration.ms": "3000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


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


def transact(address: str) -> None:
    create_topic(address, TOPIC, partitions=PARTITIONS)
    find_coordinator(address)
    with WireProducer(address, "forgotten") as producer:
        producer.init()
    wait_until(lambda: is_forgotten(address, "forgotten"))
    with WireProducer(address, "committer") as producer:
        producer.init()
        for partition in range(PARTITIONS):
            producer.write(TOPIC, b"committed", partition=partition)
        producer.commit_offset("group", TOPIC, 1)
        producer.commit()
        producer.write(TOPIC, b"aborted")
        producer.abort()
    with WireProducer(address, "fenced") as producer, WireProducer(address, "fenced") as other:
        producer.init()
        producer.write(TOPIC, b"fenced")
        other.init()
    with WireProducer(address, "late", timeout_ms=SHORT_MS) as producer:
        producer.init()
        producer.write(TOPIC, b"late")
        wait_until(lambda: state_of(address, "late") == "CompleteAbort")
    with WireProducer(address, "open") as producer:
        producer.init()
        producer.write(TOPIC, b"open", partition=1)


def transact_in_second_version(address: str) -> None:
    with WireProducer(address, "second") as producer:
        producer.init()
        for committed in (True, False):
            answer = settled(lambda: producer.ask_produce(TOPIC, b"second", version=SECOND_PRODUCE))
            assert answer == "NONE", answer
            answer = producer.ask_end(committed=committed, version=SECOND_END)
            assert answer == "NONE", answer
        wait_until(lambda: state_of(address, "second") == "CompleteAbort")


def is_forgotten(address: str, transactional_id: str) -> bool:
    asked = {"transactional_ids": [transactional_id]}
    (described,) = call(address, ApiKey.DESCRIBE_TRANSACTIONS, 0, **asked).transaction_states
    return bool(described.error_code == TRANSACTIONAL_ID_NOT_FOUND)


def recorded(broker: ApacheKafka, release: str) -> RecordedTransactions:
    """Of a broker that has stopped."""
    return RecordedTransactions(
        release=release,
        records=list(_records(broker, release)),
        markers=list(_markers(broker)),
    )


def _records(broker: ApacheKafka, release: str) -> Iterator[RecordedRecord]:
    found = [
        (int(path.parent.name.rpartition("-")[2]), record.key, record.value)
        for path in sorted(broker.data_directory.glob("__transaction_state-*/*.log"))
        for batch in batches_of_any_magic(path.read_bytes())
        for record in batch.records()
    ]
    keys = _shown(release, TransactionLogKey, [key for _, key, _ in found])
    values = iter(_shown(release, TransactionLogValue, [each for _, _, each in found if each]))
    for (partition, key, value), shown in zip(found, keys, strict=True):
        yield RecordedRecord(
            partition=partition,
            key=key.hex(),
            value=value.hex() if value else None,
            shown_key=shown,
            shown_value=next(values) if value else None,
        )


def _shown(release: str, message: type[Message], parts: list[bytes]) -> list[dict[str, object]]:
    """As Kafka's classes of this release read them."""
    questions = []
    for part in parts:
        place = KafkaClass(release, message.__name__, part_version(part))
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
