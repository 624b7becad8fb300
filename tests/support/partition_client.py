"""One partition as a raw client sees it, which asks for exactly what it wants to know.

    create_topic(broker.address, "events", partitions=2, segment_bytes=1000)
    with PartitionClient(broker.address, "events") as client:
        assert client.produce(batch).base_offset == 0
        batches = client.batches(0)

Owner: the test's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from odradek.protocol.api.produce import ProduceResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic
from tests.support.wire_client import WireClient, call

EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
TIMEOUT_MS = 20_000
FETCH_BYTES_MAX = 50 << 20


def create_topic(address: str, topic: str, *, partitions: int = 1, **configs: object) -> None:
    """``configs`` are named as Kafka's, with underscores for the dots."""
    written = [
        {"name": name.replace("_", "."), "value": str(value)} for name, value in configs.items()
    ]
    asked = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
    answer = call(
        address,
        ApiKey.CREATE_TOPICS,
        7,
        topics=[asked | {"configs": written}],
        timeout_ms=TIMEOUT_MS,
    )
    assert answer.topics[0].error_code == 0, answer


class PartitionClient:
    """A connection of its own, unless one is lent."""

    def __init__(
        self, address: str, topic: str, partition: int = 0, *, over: WireClient | None = None
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._is_lent = over is not None
        self.wire = over or WireClient(address)

    def produce(self, batch: bytes | bytearray, *, version: int = 9) -> Any:
        """What is told of it."""
        return self.answer_to_produce(
            self.wire.call(ApiKey.PRODUCE, version, **self.produce_values(batch))
        )

    def produce_values(self, batch: bytes | bytearray) -> dict[str, Any]:
        sent = {"index": self.partition, "records": bytes(batch)}
        topic = {"name": self.topic, "partition_data": [sent]}
        return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": [topic]}

    @staticmethod
    def answer_to_produce(answer: ProduceResponse) -> Any:
        return answer.responses[0].partition_responses[0]

    def fetch(
        self,
        offset: int,
        *,
        max_bytes: int = FETCH_BYTES_MAX,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> Any:
        """What is there at once."""
        asked = {
            "partition": self.partition,
            "fetch_offset": offset,
            "partition_max_bytes": max_bytes,
        }
        answer = self.wire.call(
            ApiKey.FETCH,
            11,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=FETCH_BYTES_MAX,
            session_epoch=-1,
            isolation_level=isolation_level,
            topics=[{"topic": self.topic, "partitions": [asked]}],
        )
        return answer.responses[0].partitions[0]

    def batches(self, offset: int, *, max_bytes: int = FETCH_BYTES_MAX) -> Sequence[AnyBatch]:
        """Whole ones, as one answer has them."""
        line = self.fetch(offset, max_bytes=max_bytes)
        assert line.error_code == 0, ErrorCode.for_code(line.error_code)
        return list(batches_of_any_magic(bytes(line.records or b"")))

    def records(self) -> Sequence[Record]:
        """From the start to the end, markers left out."""
        found: list[Record] = []
        offset = self.offset_at(EARLIEST)
        while batches := self.batches(offset):
            for batch in batches:
                if not batch.is_control:
                    found += [each for each in batch.records() if each.offset >= offset]
            offset = batches[-1].next_offset
        return found

    def offset_at(self, timestamp: int, *, isolation_level: int = READ_UNCOMMITTED) -> int:
        """-1: there is none.  EARLIEST and LATEST are timestamps too."""
        asked = {"partition_index": self.partition, "timestamp": timestamp}
        answer = self.wire.call(
            ApiKey.LIST_OFFSETS,
            7,
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[{"name": self.topic, "partitions": [asked]}],
        )
        line = answer.topics[0].partitions[0]
        assert line.error_code == 0, ErrorCode.for_code(line.error_code)
        return int(line.offset)

    def producers(self) -> Any:
        """Those that the partition remembers."""
        asked = {"name": self.topic, "partition_indexes": [self.partition]}
        answer = self.wire.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[asked])
        line = answer.topics[0].partitions[0]
        assert line.error_code == 0, ErrorCode.for_code(line.error_code)
        return line.active_producers

    def delete_records(self, *, before: int) -> int:
        """Where the log begins then."""
        asked = {"partition_index": self.partition, "offset": before}
        topic = {"name": self.topic, "partitions": [asked]}
        answer = self.wire.call(ApiKey.DELETE_RECORDS, 2, topics=[topic], timeout_ms=TIMEOUT_MS)
        line = answer.topics[0].partitions[0]
        assert line.error_code == 0, ErrorCode.for_code(line.error_code)
        return int(line.low_watermark)

    def close(self) -> None:
        if not self._is_lent:
            self.wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
