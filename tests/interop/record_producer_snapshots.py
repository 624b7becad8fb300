"""Makes the partitions below tests/vectors/producer_snapshots anew, with librdkafka and a broker.

    .venv/bin/python -m tests.interop.record_producer_snapshots [DIRECTORY]

A Kafka 3.9 broker is written to by idempotent and transactional producers and stopped cleanly, upon
which it writes a snapshot of each partition.  What they hold is what DumpLogSegments reads in them.
"""

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.apache_kafka import ApacheKafka, ZooKeeper, zookeeper_broker
from tests.support.java_program import run_java
from tests.support.kafka_jars import kafka_jars
from tests.support.recorded_producers import (
    PRODUCER_SNAPSHOTS,
    RecordedProducers,
    contents_by_offset,
)

TIMEOUT_S = 30
QUIET = {"log_level": 2}  # producers in mid-transaction complain when the broker stops
NOON = 1_600_000_000_000

# The records are years old: by default they would be rolled away from newer ones, then deleted.
KEPT = {"retention.ms": "-1", "segment.ms": str(2**63 - 1)}
ROLLED_AFTER_BYTES = {"segment.bytes": "400"}

FIELDS = {
    "producerId": "producer_id",
    "producerEpoch": "epoch",
    "coordinatorEpoch": "coordinator_epoch",
    "currentTxnFirstOffset": "transaction_first_offset",
    "lastTimestamp": "last_timestamp",
    "firstSequence": "first_sequence",
    "lastSequence": "last_sequence",
    "lastOffset": "last_offset",
    "offsetDelta": "offset_delta",
}


def main() -> None:
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else PRODUCER_SNAPSHOTS
    with tempfile.TemporaryDirectory() as scratch, ZooKeeper(Path(scratch)) as zookeeper:
        with zookeeper_broker(Path(scratch), zookeeper=zookeeper.address) as broker:
            left_open = [write(broker.bootstrap) for write in SCENARIOS.values()]
        for name in SCENARIOS:
            recorded(broker, name).save(destination)
        for producer in (producer for producers in left_open for producer in producers):
            producer.purge()


def idempotent(bootstrap: str) -> list[Producer]:
    """Two producers, of which one has written more batches than are remembered."""
    create_topic(bootstrap, "idempotent", KEPT)
    for count in (7, 2):
        producer = Producer({**QUIET, "bootstrap.servers": bootstrap, "enable.idempotence": True})
        for number in range(count):
            send(producer, "idempotent", records=number + 1)
    return []


def transactional(bootstrap: str) -> list[Producer]:
    """One has committed, one aborted, one was fenced, one is in mid-transaction."""
    topic = "transactional"
    create_topic(bootstrap, topic, KEPT)
    committer, aborter, fenced, last = (
        begun(bootstrap, name) for name in ("committer", "aborter", "fenced", "last")
    )
    for producer in (committer, last, aborter, fenced):
        send(producer, topic, records=2)
    committer.commit_transaction(TIMEOUT_S)
    aborter.abort_transaction(TIMEOUT_S)
    Producer(
        {**QUIET, "bootstrap.servers": bootstrap, "transactional.id": "fenced"}
    ).init_transactions(TIMEOUT_S)
    committer.begin_transaction()
    send(committer, topic, records=3)
    committer.commit_transaction(TIMEOUT_S)
    send(last, topic, records=1)
    return [fenced, last]


def rolled(bootstrap: str) -> list[Producer]:
    """Several segments, and a transaction across them."""
    create_topic(bootstrap, "rolled", {**KEPT, **ROLLED_AFTER_BYTES})
    producer = begun(bootstrap, "across")
    other = Producer({**QUIET, "bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(4):
        send(producer, "rolled", records=number + 1)
        send(other, "rolled", records=2)
    producer.abort_transaction(TIMEOUT_S)
    return []


SCENARIOS: dict[str, Callable[[str], list[Producer]]] = {
    "idempotent": idempotent,
    "transactional": transactional,
    "rolled": rolled,
}


def create_topic(bootstrap: str, topic: str, config: dict[str, str]) -> None:
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    new_topic = NewTopic(topic, num_partitions=1, replication_factor=1, config=config)
    admin.create_topics([new_topic])[topic].result(TIMEOUT_S)


def begun(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer(
        {**QUIET, "bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    return producer


def send(producer: Producer, topic: str, *, records: int) -> None:
    """One batch, acknowledged."""
    for number in range(records):
        producer.produce(topic, b"x" * 20, partition=0, timestamp=NOON + number)
    assert producer.flush(TIMEOUT_S) == 0


def recorded(broker: ApacheKafka, name: str) -> RecordedProducers:
    directory = broker.data_directory / f"{name}-0"
    return RecordedProducers(
        name=name,
        segments=contents_by_offset(directory, ".log"),
        snapshots=contents_by_offset(directory, ".snapshot"),
        entries={
            int(path.stem): list(dumped(kafka_jars(broker.version), path))
            for path in directory.glob("*.snapshot")
        },
    )


def dumped(jars: Path, snapshot: Path) -> Iterator[dict[str, int | None]]:
    for line in run_java(jars, "kafka.tools.DumpLogSegments", "--files", str(snapshot)):
        if line.startswith("producerId: "):
            found = re.findall(r"(\w+): (?:OptionalLong)?\[?(-?\d+|\.empty)", line)
            yield {
                FIELDS[field]: None if text == ".empty" else int(text)
                for field, text in found
                if field in FIELDS
            }


if __name__ == "__main__":
    main()
