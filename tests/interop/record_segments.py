"""Makes the segments below tests/vectors/segments anew, with real clients and a real broker.

    .venv/bin/python -m tests.interop.record_segments [DIRECTORY]

One Kafka 3.9 broker serves the present format, a second one (with the inter-broker protocol of 2.8,
the last that still writes them) the old formats.  What the segments are expected to hold is what
the Java consumer and DumpLogSegments read in them.
"""

import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import aiokafka
import confluent_kafka

from tests.interop.segment_recipes import (
    BATCHES,
    OLD_BATCHES,
    Recipe,
    old_format_recipes,
    recipes,
)
from tests.support.apache_kafka import (
    ApacheKafka,
    ZooKeeper,
    old_format_broker,
    zookeeper_broker,
)
from tests.support.java_client import JavaClient, Round
from tests.support.kafka_jars import kafka_jars
from tests.support.log_dump import dumped_batches
from tests.support.python_producers import aiokafka_produce, librdkafka_produce
from tests.support.recorded_segments import SEGMENTS, RecordedSegment

# The records are years old: by default they would be rolled away from newer ones, then deleted.
KEEP_TOGETHER = {"retention.ms": "-1", "segment.ms": str(2**63 - 1)}

MIXED_FORMATS = (("0.9.0", OLD_BATCHES), ("0.10.0", OLD_BATCHES), ("2.8", BATCHES))
CONFIG_CHANGE_TIMEOUT_S = 30


def main() -> None:
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else SEGMENTS
    destination.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, ZooKeeper(Path(scratch)) as zookeeper:
        for segment in record_with_own_brokers(Path(scratch), zookeeper.address):
            segment.save(destination)


def record_with_own_brokers(directory: Path, zookeeper: str) -> Iterator[RecordedSegment]:
    with zookeeper_broker(directory, zookeeper=zookeeper) as broker:
        yield from record(broker)
    with old_format_broker(directory, zookeeper) as broker:
        yield from record_old_formats(broker)


def record(broker: ApacheKafka) -> list[RecordedSegment]:
    with JavaClient(kafka_jars(broker.version), broker.bootstrap) as java:
        return Recorder(broker, java).record(recipes())


def record_old_formats(broker: ApacheKafka) -> list[RecordedSegment]:
    with JavaClient(kafka_jars(broker.version), broker.bootstrap) as java:
        recorder = Recorder(broker, java)
        topic = recorder.produce_mixed()
        return recorder.record(old_format_recipes(), {topic: "java-mixed-magic"})


class Recorder:
    """Sends what recipes say, then reads back what the broker made of it."""

    def __init__(self, broker: ApacheKafka, java: JavaClient) -> None:
        self._broker = broker
        self._java = java

    def record(
        self, recipes: Sequence[Recipe], produced: Mapping[str, str] = {}
    ) -> list[RecordedSegment]:
        """Also of topics ``produced`` already, each with the name that its segment is to have."""
        names = dict(produced)
        for recipe in recipes:
            names[self._produce(recipe)] = recipe.name
        segments = {self._broker.segment(topic): topic for topic in names}
        dumped = dumped_batches(kafka_jars(self._broker.version), list(segments))
        return [
            RecordedSegment(
                name=names[topic],
                recorded_with=self._versions(names[topic]),
                log=path.read_bytes(),
                batches=dumped[path],
                records=tuple(self._java.consume(topic)),
                committed_offsets=tuple(
                    record.offset
                    for record in self._java.consume(topic, {"isolation.level": "read_committed"})
                ),
            )
            for path, topic in segments.items()
        ]

    def produce_mixed(self) -> str:
        """A topic that changed its format twice, so that its segment holds three."""
        topic = f"mixed-{uuid.uuid4().hex}"
        self._java.create_topic(topic, KEEP_TOGETHER)
        for version, batches in MIXED_FORMATS:
            self._change_topic(topic, {"message.format.version": version})
            self._java.produce(topic, [Round(batches[:2])], {"enable.idempotence": "false"})
        return topic

    def _produce(self, recipe: Recipe) -> str:
        topic = f"{recipe.name}-{uuid.uuid4().hex}"
        self._java.create_topic(topic, {**KEEP_TOGETHER, **recipe.topic})
        if recipe.client == "java":
            self._java.produce(topic, recipe.rounds, recipe.producer)
        elif recipe.client == "librdkafka":
            librdkafka_produce(self._broker.bootstrap, topic, recipe.rounds, recipe.producer)
        else:
            aiokafka_produce(
                self._broker.port,
                topic,
                recipe.rounds,
                codec=recipe.producer["compression.type"],
            )
        return topic

    def _change_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Returns when the broker has applied the change."""
        # The broker applies changes one after the other and logs each before it applies it: when it
        # has logged a later one, to another topic, the first is in force.
        fence = f"fence-{uuid.uuid4().hex}"
        self._java.create_topic(fence)
        self._java.alter_topic(topic, configs)
        self._java.alter_topic(fence, KEEP_TOGETHER)
        deadline = time.monotonic() + CONFIG_CHANGE_TIMEOUT_S
        while f"entityPath: topics/{fence}" not in self._broker.log.read_text():
            assert time.monotonic() < deadline, f"{configs} was not applied"
            time.sleep(0.02)

    def _versions(self, name: str) -> dict[str, str]:
        kafka_version = self._broker.version
        clients = {
            "java": f"kafka-clients {kafka_version}",
            "librdkafka": f"librdkafka {confluent_kafka.libversion()[0]}",
            "aiokafka": f"aiokafka {aiokafka.__version__}",
        }
        client = next(clients[prefix] for prefix in clients if name.startswith(prefix))
        return {"broker": f"Apache Kafka {kafka_version}", "client": client}


if __name__ == "__main__":
    main()
