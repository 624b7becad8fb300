"""The fetch state of a partition that a fetcher follows.

Owner: the event loop; part of a fetcher.
"""

from __future__ import annotations

from odradek.broker.replicas.fetch_session_handler import FetchRequestPartition, PartitionRequest
from odradek.broker.replicas.partition import Partition
from odradek.protocol.types import ZERO_UUID

INITIAL_BACKOFF_S = 0.02


class PartitionFetchState:
    """The fetch state of a partition in one leader epoch.  Kafka: PartitionFetchState."""

    __slots__ = (
        "_last_request",
        "backoff_s",
        "delayed_until",
        "is_caught_up",
        "last_error",
        "leader_epoch",
        "needs_truncation_check",
        "partition",
        "requested_offset",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        #: Whether the log may have a tail without epochs, which the leader cannot compare.
        self.needs_truncation_check = True
        #: The log end offset at the last request; None if the partition was not in the request.
        self.requested_offset: int | None = None
        self._last_request: FetchRequestPartition | None = None
        self.delayed_until = 0.0
        #: Whether the log had reached the leader's high watermark at the last response.
        self.is_caught_up = False
        #: The last backoff and its reason; 0 and None after a successful fetch.
        self.backoff_s = 0.0
        self.last_error: str | None = None

    @property
    def is_current(self) -> bool:
        return (
            self.partition.leader_state is None and self.partition.leader_epoch == self.leader_epoch
        )

    def build_request(self, max_bytes: int) -> FetchRequestPartition:
        """Return the request from the log end offset; the same object if nothing has changed."""
        log = self.partition.log
        end, start, epoch = (
            log.log_end_offset,
            log.log_start_offset,
            log.leader_epoch_cache.latest_epoch,
        )
        topic_id = self.partition.topic_id or ZERO_UUID
        self.requested_offset = end
        request = self._last_request
        if (
            request is None
            or request.partition_request.fetch_offset != end
            or request.partition_request.log_start_offset != start
            or request.partition_request.last_fetched_epoch != epoch
            or request.partition_request.partition_max_bytes != max_bytes
            or request.topic_id is not topic_id
        ):
            partition_request = PartitionRequest(
                partition=self.partition.topic_partition.partition,
                current_leader_epoch=self.leader_epoch,
                fetch_offset=end,
                last_fetched_epoch=epoch,
                log_start_offset=start,
                partition_max_bytes=max_bytes,
            )
            request = self._last_request = FetchRequestPartition(partition_request, topic_id)
        return request

    def back_off(self, *, now_s: float, max_backoff_s: float) -> None:
        """Double the backoff: usually the leader is about to learn that it leads."""
        self.backoff_s = min(max_backoff_s, max(INITIAL_BACKOFF_S, 2 * self.backoff_s))
        self.delayed_until = now_s + self.backoff_s

    def on_fetched(self, *, leader_high_watermark: int) -> None:
        """Reset the backoff after a successful fetch."""
        self.backoff_s, self.last_error = 0.0, None
        self.is_caught_up = self.partition.log.log_end_offset >= leader_high_watermark

    @property
    def matches_request(self) -> bool:
        return self.is_current and self.requested_offset == self.partition.log.log_end_offset
