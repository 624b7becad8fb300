"""What does a running broker tell of its partitions?

Most is asked by Kafka's own consumer and admin client (java/PartitionObserver.java); what a Fetch
carries besides records they keep to themselves, so that is asked here.
"""

import json
import re
import socket
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Self

from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode
from odradek.protocol.header import request_frame
from odradek.protocol.types import TopicPartition
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_client import SeenRecord
from tests.support.java_program import JavaFailed, JavaProgram, run_java
from tests.support.kafka_jars import kafka_jars
from tests.support.raw_request import ANSWER_TIMEOUT_S, LOOPBACK
from tests.support.recorded_directories import (
    AbortedEntry,
    Fetched,
    FoundTimestamp,
    KnownProducer,
    RecordedPartition,
)

SOURCE = Path(__file__).parent / "java" / "PartitionObserver.java"

FETCH_VERSION = 11  # the last that is not flexible
FETCH_SIZES = (1, 700, 1 << 20)
FETCH_OFFSETS_MAX = 8
TIMESTAMPS_MAX = 12
NO_TIME = -1

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

SNAPSHOT_FIELDS = {
    "producerId": "producer_id",
    "lastOffset": "last_offset",
    "offsetDelta": "offset_delta",
}
NO_BATCH = {"last_offset": -1, "offset_delta": 0}
ABORTED = re.compile(
    r"version: 0 producerId: (-?\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
)

Told = dict[str, Any]


class PartitionObserver:
    """Asks one broker, while it runs."""

    def __init__(self, broker: ApacheKafka) -> None:
        self._program = JavaProgram(kafka_jars(broker.version), SOURCE, broker.bootstrap)
        self._connection = socket.create_connection((LOOPBACK, broker.port), ANSWER_TIMEOUT_S)

    def partitions(self) -> list[TopicPartition]:
        return sorted(TopicPartition(*each) for each in self._ask("partitions")["partitions"])

    def observed(self, partition: TopicPartition) -> Told:
        """The fields of a RecordedPartition, except for what only files tell."""
        records = self._records(partition, READ_UNCOMMITTED)
        start = self._offset("earliest", partition)["offset"]
        end = self._offset("latest", partition)["offset"]
        return {
            "topic": partition.topic,
            "partition": partition.partition,
            "records": records,
            "committed_offsets": tuple(
                record.offset for record in self._records(partition, READ_COMMITTED)
            ),
            "start_offset": start,
            "end_offset": end,
            "last_stable_offset": self._offset("latest", partition, READ_COMMITTED)["offset"],
            **self._timestamps(partition, records),
            "producers": self._ask("producers", partition)["producers"],
            "fetches": tuple(
                self._fetched(partition, offset, max_bytes, is_committed)
                for offset in sample(range(start, end), FETCH_OFFSETS_MAX)
                for max_bytes in FETCH_SIZES
                for is_committed in (False, True)
            ),
        }

    def _timestamps(self, partition: TopicPartition, records: tuple[SeenRecord, ...]) -> Told:
        """None and no others where the topic's message format knows no timestamps."""
        try:
            largest = FoundTimestamp(NO_TIME, **self._offset("largest", partition))
        except JavaFailed as refusal:
            if "UnsupportedForMessageFormat" not in str(refusal):
                raise
            return {"largest_timestamp": None, "timestamps": ()}
        found = tuple(
            FoundTimestamp(asked, **self._offset("from", partition, timestamp=asked))
            for asked in interesting_timestamps(records)
        )
        return {"largest_timestamp": largest, "timestamps": found}

    def _records(self, partition: TopicPartition, isolation: str) -> tuple[SeenRecord, ...]:
        answer = self._ask("records", partition, isolation=isolation)
        return tuple(SeenRecord.from_json(fields) for fields in answer["records"])

    def _offset(
        self,
        ask: str,
        partition: TopicPartition,
        isolation: str = READ_UNCOMMITTED,
        **more: int,
    ) -> Told:
        return self._ask(ask, partition, isolation=isolation, **more)

    def _ask(self, ask: str, partition: TopicPartition | None = None, **more: Any) -> Told:
        where = partition._asdict() if partition else {}
        answer: Told = json.loads(self._program.ask(json.dumps({"ask": ask, **where, **more})))
        if "error" in answer:
            raise JavaFailed(f"{ask} {partition}: {answer['error']}")
        return answer

    def _fetched(
        self, partition: TopicPartition, offset: int, max_bytes: int, is_committed: bool
    ) -> Fetched:
        request = fetch_request(partition, offset, max_bytes, is_committed)
        answer = exchanged_fetch(self._connection, request).responses[0].partitions[0]
        assert answer.error_code == 0, answer
        records = bytes(answer.records or b"")
        return Fetched(
            offset=offset,
            max_bytes=max_bytes,
            is_committed=is_committed,
            size_bytes=len(records),
            checksum=zlib.crc32(records),
            aborted=tuple(
                (each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()
            ),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._connection.close()
        self._program.close()


def completed(told: Iterable[Told], jars: Path, data_directory: Path) -> list[RecordedPartition]:
    """With what Kafka's tool finds in the directory, of which the broker was stopped cleanly."""
    partitions = list(told)
    files = [
        path
        for each in partitions
        for path in files_to_dump(data_directory / f"{each['topic']}-{each['partition']}")
    ]
    dumped = dumped_files(jars, files)
    return [with_files(each, dumped, data_directory) for each in partitions]


def files_to_dump(directory: Path) -> list[Path]:
    snapshots = sorted(directory.glob("*.snapshot"))
    return [*sorted(directory.glob("*.txnindex")), *snapshots[-1:]]


def with_files(told: Told, dumped: dict[Path, list[str]], root: Path) -> RecordedPartition:
    directory = root / f"{told['topic']}-{told['partition']}"
    lines = {path: lines for path, lines in dumped.items() if path.parent == directory}
    snapshot = {
        entry.pop("producer_id"): entry
        for path, entries in lines.items()
        if path.suffix == ".snapshot"
        for entry in map(snapshot_entry, entries)
        if entry
    }
    producers = [
        KnownProducer(**producer, **snapshot[producer["producer_id"]])
        for producer in told["producers"]
    ]
    return RecordedPartition(
        **{**told, "producers": tuple(sorted(producers, key=lambda each: each.producer_id))},
        aborted=tuple(
            AbortedEntry(*map(int, found.groups()))
            for path, entries in lines.items()
            if path.suffix == ".txnindex"
            for found in map(ABORTED.search, entries)
            if found
        ),
    )


def dumped_files(jars: Path, files: list[Path]) -> dict[Path, list[str]]:
    if not files:
        return {}
    names = ",".join(map(str, files))
    found: dict[Path, list[str]] = {}
    for line in run_java(jars, "kafka.tools.DumpLogSegments", "--files", names):
        if line.startswith("Dumping "):
            lines = found[Path(line.removeprefix("Dumping "))] = []
        else:
            lines.append(line)
    return found


def snapshot_entry(line: str) -> dict[str, int]:
    """Empty for a line that is none; a producer of which no batch is known has no offset."""
    if not line.startswith("producerId: "):
        return {}
    return NO_BATCH | {
        SNAPSHOT_FIELDS[name]: int(text)
        for name, text in re.findall(r"(\w+): (-?\d+)", line)
        if name in SNAPSHOT_FIELDS
    }


def interesting_timestamps(records: tuple[SeenRecord, ...]) -> Iterator[int]:
    """Below, at, between and above those of the records; negative ones mean something else."""
    found = sorted({record.timestamp for record in records if record.timestamp > 0})
    yield 0
    for timestamp in sample(found, TIMESTAMPS_MAX):
        yield from (timestamp - 1, timestamp, timestamp + 1)


def sample(values: Any, most: int) -> list[Any]:
    """Evenly from the first to the last."""
    count = len(values)
    if count <= most:
        return list(values)
    return [values[slot * (count - 1) // (most - 1)] for slot in range(most)]


def fetch_request(
    partition: TopicPartition, offset: int, max_bytes: int, is_committed: bool
) -> FetchRequest:
    wanted = FetchRequest.Topic.Partition(
        partition=partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=int(is_committed),
        topics=[FetchRequest.Topic(topic=partition.topic, partitions=[wanted])],
    )


def exchanged_fetch(connection: socket.socket, request: FetchRequest) -> FetchResponse:
    size, correlation_id = Struct(">i"), 1
    frame = request_frame(ApiKey.FETCH, FETCH_VERSION, correlation_id, None, request)
    connection.sendall(b"".join(frame))
    (length,) = size.unpack(exactly(connection, size.size))
    return decode(FetchResponse, FETCH_VERSION, exactly(connection, length), size.size)


def exactly(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        more = connection.recv(length - len(received))
        if not more:
            raise ConnectionError("the broker closed the connection")
        received += more
    return received
