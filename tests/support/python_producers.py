"""The same sending of records by librdkafka, and as aiokafka builds magic 1.

Both send each list of records as one batch, as the Java client in java_client does.
"""

from collections.abc import Mapping, Sequence

import confluent_kafka
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from tests.support.java_client import Round, SentRecord
from tests.support.raw_request import produce

SEND_TIMEOUT_S = 30
LINGER_MS = 30_000  # so that only a flush ends a batch
BATCH_BYTES_MAX = 1 << 20
CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
PRODUCE_VERSION = 2  # what clients of the time sent magic 1 in


def librdkafka_produce(
    bootstrap: str, topic: str, rounds: Sequence[Round], configs: Mapping[str, str]
) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": LINGER_MS, **configs}
    )
    if "transactional.id" in configs:
        producer.init_transactions(SEND_TIMEOUT_S)
    for each in rounds:
        if each.end:
            producer.begin_transaction()
        for batch in each.batches:
            _send_with_librdkafka(producer, topic, batch)
        if each.end == "commit":
            producer.commit_transaction(SEND_TIMEOUT_S)
        elif each.end == "abort":
            producer.abort_transaction(SEND_TIMEOUT_S)


def _send_with_librdkafka(
    producer: confluent_kafka.Producer, topic: str, batch: Sequence[SentRecord]
) -> None:
    failures: list[confluent_kafka.KafkaError] = []

    def note(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        if error is not None:
            failures.append(error)

    for record in batch:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition=0,
            timestamp=record.timestamp,
            headers=list(record.headers),
            on_delivery=note,
        )
    unsent = producer.flush(SEND_TIMEOUT_S)
    assert unsent == 0
    assert not failures


def aiokafka_produce(port: int, topic: str, rounds: Sequence[Round], *, codec: str) -> None:
    """Only its record builder takes part: no producer of today sends this format."""
    for each in rounds:
        assert not each.end, "the old formats know no transactions"
        for batch in each.batches:
            sent = LegacyRecordBatchBuilder(
                magic=1, compression_type=CODEC_NUMBERS[codec], batch_size=BATCH_BYTES_MAX
            )
            for number, record in enumerate(batch):
                sent.append(number, record.timestamp, record.key, record.value)
            produce(port, topic, bytes(sent.build()), version=PRODUCE_VERSION)
