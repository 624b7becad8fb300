"""Truncates a follower's log, partly or fully, while its cleaning is paused.

Kafka: ReplicaFetcherThread.truncate and truncateFullyAndStartAt.  truncation.py finds the offset.

Invariant: a truncation starts only for a partition that the fetcher follows in the same epoch.

Owner: the event loop; of a fetcher.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from odradek.broker.replicas.partition_fetch_state import PartitionFetchState
from odradek.broker.replicas.partition_fetch_states import PartitionFetchStates
from odradek.protocol.types import TopicPartition
from odradek.storage.manager.disk_task import DiskTask
from odradek.storage.manager.hosted_log import HostedLog

log = logging.getLogger("kafka.server")


class TruncatableLogs(Protocol):
    """The part of the log manager that truncates logs."""

    def truncate(self, hosted_log: HostedLog, offset: int, /, *, now_ms: int) -> DiskTask: ...

    def truncate_fully_and_start_at(
        self, hosted_log: HostedLog, new_offset: int, /, *, now_ms: int
    ) -> DiskTask: ...


class LogMaintenance(Protocol):
    """Pauses compaction and retention during the truncation."""

    async def abort_and_pause_cleaning(self, partition: TopicPartition, /) -> None: ...

    def resume_cleaning(self, partition: TopicPartition, /) -> None: ...

    async def execute(self, task: DiskTask, /) -> None: ...


class LogTruncator:
    """Truncates the logs that one fetcher follows."""

    def __init__(
        self,
        fetch_states: PartitionFetchStates,
        log_manager: TruncatableLogs,
        log_maintenance: LogMaintenance,
        now_ms: Callable[[], int],
    ) -> None:
        self._fetch_states = fetch_states
        self._log_manager = log_manager
        self._log_maintenance = log_maintenance
        self._now_ms = now_ms

    async def truncate(self, fetch_state: PartitionFetchState, offset: int) -> None:
        if offset < fetch_state.partition.log.segments.first.base_offset:
            await self._truncate_to_first_segment(fetch_state)

        def plan_truncation(hosted_log: HostedLog) -> DiskTask:
            local_log = hosted_log.log
            # Only an unclean leader election truncates a log below its high watermark.
            level = logging.WARNING if offset < local_log.high_watermark else logging.INFO
            log.log(
                level,
                "Truncating partition %s to offset %d; its log end offset is %d",
                local_log.partition,
                offset,
                local_log.log_end_offset,
            )
            return self._log_manager.truncate(hosted_log, offset, now_ms=self._now_ms())

        await self._run_exclusively(fetch_state, plan_truncation)

    async def truncate_fully_and_start_at(
        self, fetch_state: PartitionFetchState, start_offset: int
    ) -> None:
        """Restart the log at ``start_offset``, the leader's log start offset."""

        def plan_restart(hosted_log: HostedLog) -> DiskTask:
            topic_partition = hosted_log.partition
            log.warning(
                "Truncating partition %s fully and starting at offset %d, the leader's log start "
                "offset",
                topic_partition,
                start_offset,
            )
            return self._log_manager.truncate_fully_and_start_at(
                hosted_log, start_offset, now_ms=self._now_ms()
            )

        await self._truncate_to_first_segment(fetch_state)
        await self._run_exclusively(fetch_state, plan_restart)

    async def _truncate_to_first_segment(self, fetch_state: PartitionFetchState) -> None:
        """Delete all later segments on a disk thread; a full truncation would do it on the loop."""
        segments = fetch_state.partition.log.segments
        if not segments.is_single_empty_segment:
            await self.truncate(fetch_state, segments.first.base_offset)

    async def _run_exclusively(
        self, fetch_state: PartitionFetchState, plan: Callable[[HostedLog], DiskTask]
    ) -> None:
        """Pause cleaning and run the task, unless the partition has left this epoch meanwhile."""
        partition, log_maintenance = fetch_state.partition, self._log_maintenance
        topic_partition = partition.topic_partition
        await log_maintenance.abort_and_pause_cleaning(topic_partition)
        try:
            if fetch_state.is_current and self._fetch_states.find(topic_partition) is fetch_state:
                try:
                    task = plan(partition.hosted_log)
                finally:
                    partition.on_truncated()  # also after a partial truncation
                await log_maintenance.execute(task)
        finally:
            # The deletion of a log has already removed its pause.
            if not partition.hosted_log.is_deleted:
                log_maintenance.resume_cleaning(topic_partition)
