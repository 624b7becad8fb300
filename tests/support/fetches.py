"""Fetches from real logs: what is asked, and what the answer says in short."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from odradek.broker.fetching.dirty_partitions import FULL_SCAN_INTERVAL_MS
from odradek.broker.fetching.fetch_session_cache import FetchSessionCache
from odradek.broker.fetching.partition_reader import FetchPolicy
from odradek.broker.handlers import fetch
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.replication_quota_manager import RateQuota, ReplicationQuotaManager
from odradek.broker.request import Request
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.record_set import batches_of_any_magic
from odradek.protocol.types import Uuid
from tests.support.calls import called
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS, bytes_of, records_batch

Topic = FetchRequest.Topic
Asked = Topic.Partition
Line = FetchResponse.Topic.Partition

CONSUMER = -1


class SeenCluster:
    """The picture of the cluster, as far as reading handlers ask for it."""

    def __init__(self, hosting: Hosting) -> None:
        self._known = hosting.known
        self.leaders: dict[tuple[str, int], Any] = {}
        self.brokers: dict[int, Node] = {}

    def has_topic(self, name: str) -> bool:
        return any(topic == name for topic, _ in self._known.partitions)

    def has_partition(self, topic: str, partition: int) -> bool:
        return self._known.has_partition(topic, partition)

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self._known.topic_name(topic_id)

    def partition(self, topic: str, partition: int) -> Any:
        return self.leaders.get((topic, partition))

    def nodes(self, listener: str) -> dict[int, Node]:
        return self.brokers if listener == "INSIDE" else {}

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.brokers


class FetchBench:
    """A broker's fetching, on the logs of a replica manager."""

    def __init__(
        self,
        *paths: Path,
        slots: int = 1000,
        whole_pass_ms: int = FULL_SCAN_INTERVAL_MS,
        **settings: Any,
    ) -> None:
        self.hosting = Hosting(*paths, **settings)
        self.cluster = SeenCluster(self.hosting)
        self.now_ms = NOW_MS
        self.sessions = FetchSessionCache(
            slots=slots, now_ms=lambda: self.now_ms, full_scan_interval_ms=whole_pass_ms
        )
        self.throttle = ReplicationQuotaManager(
            RateQuota(windows=11, window_s=1, now_s=lambda: self.now_ms / 1000)
        )
        self.policy = FetchPolicy(50 << 20, self.throttle)

    def lead(self, partition: int = 0, **state: Any) -> Partition:
        return self.hosting.lead(partition=partition, **state)

    def fetched(self, request: FetchRequest, *, version: int = 12) -> Any:
        return self.answered(called(request, version=version))

    def answered(self, call: Request[FetchRequest]) -> Any:
        return fetch.handle(self.hosting.replicas, self.cluster, self.sessions, self.policy, call)


def asked(partition: int = 0, offset: int = 0, *, max_bytes: int = 1 << 20, **fields: Any) -> Asked:
    return Asked(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def request(*partitions: Asked, topic: str = "events", **fields: Any) -> FetchRequest:
    """Answered at once, unless ``max_wait_ms`` says otherwise."""
    topics = [Topic(topic=topic, partitions=list(partitions))] if partitions else []
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **fields})


def append(partition: Partition, *values: bytes, **batch: Any) -> int:
    """One batch; its size."""
    records = records_batch(*values or (b"v",), **batch)
    partition.append(records, acks=1, now_ms=NOW_MS)
    return len(records)


def lines(response: FetchResponse) -> list[Line]:
    return [line for topic in response.responses for line in topic.partitions]


def content(line: Line) -> bytes:
    records = line.records
    if isinstance(records, FileRegion):
        return bytes_of(records)
    return b"" if records is None else bytes(records)


def values(line: Line) -> list[bytes | None]:
    """Those of all records in whole batches."""
    return [
        record.value for batch in batches_of_any_magic(content(line)) for record in batch.records()
    ]


def told(response: FetchResponse) -> list[tuple[int, str, list[bytes | None]]]:
    """Number, error and values of each partition."""
    return [
        (line.partition_index, ErrorCode.for_code(line.error_code).name, values(line))
        for line in lines(response)
    ]


def errors(response: FetchResponse) -> list[str]:
    return [ErrorCode.for_code(line.error_code).name for line in lines(response)]


def numbers(response: FetchResponse) -> Iterable[int]:
    return [line.partition_index for line in lines(response)]
