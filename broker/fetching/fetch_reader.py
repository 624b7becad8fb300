"""Fetch reader: reads the partitions of one fetch within its limits, and decides when to respond.

Kafka: ReplicaManager.readFromLog and DelayedFetch.tryComplete.

Partitions are read in the order of the request, each up to its own limit and up to the remaining
bytes of the whole fetch.  To let a consumer get past a large batch, the first partition with
records returns at least one complete batch, however large; a later partition returns nothing rather
than part of a batch.  Versions up to 2 have hard limits instead: a batch may be truncated anywhere.

A response is sent at once if the fetch has no wait time, if it has enough bytes, if a partition has
an error, a diverging epoch or a preferred read replica, or if the log continues in a later segment
than the one that was read.  Otherwise the fetch is delayed, and read again when one of its
partitions changes.

Unknown partitions (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID) do not cause a response at once,
unless all partitions of the fetch are unknown: a client would retry in a tight loop.

A delayed fetch, and one with an empty response, holds no file open: a session lasts longer, and
segments that are deleted meanwhile would keep their disk space.

In a session, a partition is skipped if it had nothing to read and is unchanged since the last
response.  It is not even checked before it changes (dirty_partitions.py).  For a follower, its
session alone records that it fetched such a partition (leader_state.py).

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.fetching.dirty_partitions import FetchPartitions
from odradek.broker.fetching.fetch_partition import FetchPartition, PartitionResponse
from odradek.broker.fetching.partition_reader import (
    EMPTY_RECORDS,
    INVALID_HIGH_WATERMARK,
    PartitionReader,
)
from odradek.broker.replicas.leader_state import FollowerFetchState
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.errors import KafkaError, UnknownTopicId, UnknownTopicOrPartition


class FetchReader:
    """Reads the partitions of one fetch, once or repeatedly until there are enough bytes."""

    __slots__ = (
        "_first_due",
        "_follower_fetch_state",
        "_is_first_pass",
        "_must_respond",
        "_partition_reader",
        "_size_bytes",
        "_unknown_partitions",
        "is_large",
        "partitions",
        "results",
    )

    def __init__(
        self,
        partition_reader: PartitionReader,
        partitions: FetchPartitions,
        follower_fetch_state: FollowerFetchState | None = None,
    ) -> None:
        """``follower_fetch_state`` belongs to the session of a follower."""
        self._follower_fetch_state = follower_fetch_state
        self._partition_reader = partition_reader
        self.partitions = partitions
        #: The partitions of the first pass; later passes get them from ``partitions``.
        self._first_due: list[FetchPartition] | None = partitions.due_partitions()
        #: Whether the first pass must run, or ran, in time slices.
        self.is_large = len(self._first_due) > INLINE_ENTRIES_MAX
        self._unknown_partitions: dict[FetchPartition, None] = {}
        self._is_first_pass = True
        self._size_bytes = 0
        self._must_respond = False
        #: The partitions of the last ``read`` with their responses, without the skipped ones.
        self.results: list[FetchPartition] = []

    @property
    def has_records(self) -> bool:
        return self._size_bytes > 0

    def is_satisfied(self) -> bool:
        """Whether the result is worth a response now."""
        return (
            self._must_respond
            or self._size_bytes >= self._partition_reader.params.min_bytes
            or len(self._unknown_partitions) == len(self.partitions)
            or any(
                self._partition_reader.has_records_in_later_segment(fetch_partition)
                for fetch_partition in self.results
            )
        )

    def discard_responses(self) -> None:
        """Drop the results: the fetch is read again, or nothing is sent."""
        for fetch_partition in self.results:
            fetch_partition.partition_response = None

    def read(self) -> None:
        """Read all due partitions once."""
        for _ in self.read_stepwise():
            pass

    async def read_sliced(self) -> None:
        """Like ``read``, in time slices for many partitions."""
        self.is_large = True
        time_slice = TimeSlice()
        for _ in self.read_stepwise():
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()
        self.drop_discarded()

    def drop_discarded(self) -> None:
        """Drop partitions that another, unexpected request of the session has discarded."""
        self.results = [
            fetch_partition
            for fetch_partition in self.results
            if fetch_partition.partition_response is not None
        ]

    def read_stepwise(self) -> Iterator[None]:
        """Read one partition per step; the result is complete at the end."""
        params = self._partition_reader.params
        remaining_bytes, at_least_one = params.max_bytes, not params.has_hard_limits
        self.results = results = []
        size_bytes, must_respond = 0, False
        for fetch_partition in self._take_due():
            yield
            if self._is_unchanged(fetch_partition):
                continue
            response = self._read_partition(
                fetch_partition, remaining_bytes, at_least_one=at_least_one
            )
            if response is None:
                self._unknown_partitions[fetch_partition] = None
                continue
            fetch_partition.partition_response = response
            results.append(fetch_partition)
            if response.records:
                at_least_one = False
                size_bytes += len(response.records)
                remaining_bytes = max(0, remaining_bytes - len(response.records))
            elif (
                response.error_code
                or response.diverging_epoch.epoch >= 0
                or response.preferred_read_replica >= 0
            ):
                must_respond = True
                remaining_bytes = max(0, remaining_bytes)  # a negative limit fails the first only
        if self._is_first_pass and self._follower_fetch_state is not None:
            self._follower_fetch_state.mark_completed()
        self._is_first_pass = False
        self._size_bytes, self._must_respond = size_bytes, must_respond
        self._add_unknown_responses()

    def _take_due(self) -> list[FetchPartition]:
        """Return the due partitions, without those that were unknown in the first pass."""
        due, self._first_due = self._first_due, None
        if due is not None:
            return due
        unknown = self._unknown_partitions
        return [
            fetch_partition
            for fetch_partition in self.partitions.due_partitions()
            if fetch_partition not in unknown
        ]

    def _is_unchanged(self, fetch_partition: FetchPartition) -> bool:
        """Whether to skip the partition; mark it clean if it cannot change unnoticed."""
        leader_state, partition, params = (
            fetch_partition.leader_state,
            fetch_partition.partition,
            self._partition_reader.params,
        )
        if leader_state is None or partition is None or partition.leader_state is not leader_state:
            return False
        log = partition.hosted_log.log
        if (
            log.high_watermark != fetch_partition.last_sent_high_watermark
            or log.log_start_offset != fetch_partition.last_sent_log_start_offset
        ):
            return False
        if not params.is_follower:
            # The last stable offset moves only when the high watermark does.
            is_clean = is_skipped = fetch_partition.is_read_committed is params.is_read_committed
        elif log.log_end_offset == fetch_partition.partition_request.fetch_offset:
            # In the first pass the fetch itself is news, unless it was at the end before as well.
            follower_fetch_state = self._follower_fetch_state
            is_clean = (
                follower_fetch_state is not None
                and self._partition_reader.is_follower_state_unchanged(
                    fetch_partition, leader_state, follower_fetch_state
                )
            )
            is_skipped = is_clean or not self._is_first_pass
        else:
            return False
        if is_clean:
            self.partitions.mark_clean(fetch_partition)
        return is_skipped

    def _read_partition(
        self, fetch_partition: FetchPartition, remaining_bytes: int, *, at_least_one: bool
    ) -> PartitionResponse | None:
        """Return None if the partition is unknown in the first pass."""
        partition_reader = self._partition_reader
        try:
            response = partition_reader.read(
                fetch_partition, remaining_bytes, at_least_one=at_least_one
            )
            if self._is_first_pass and partition_reader.params.is_follower:
                partition_reader.update_follower_fetch_state(
                    fetch_partition, response, self._follower_fetch_state
                )
        except (UnknownTopicOrPartition, UnknownTopicId) as error:
            response = partition_reader.error_response(fetch_partition, error)
            return None if self._is_first_pass else response
        except KafkaError as error:
            return partition_reader.error_response(fetch_partition, error)
        return response

    def _add_unknown_responses(self) -> None:
        for fetch_partition in self._unknown_partitions:
            error = UnknownTopicId if fetch_partition.topic is None else UnknownTopicOrPartition
            fetch_partition.partition_response = PartitionResponse(
                partition_index=fetch_partition.partition_request.partition,
                error_code=error.error_code.code,
                high_watermark=INVALID_HIGH_WATERMARK,
                records=EMPTY_RECORDS,
            )
        self.results += self._unknown_partitions
