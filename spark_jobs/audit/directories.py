"""The audit plan: the partitions in log directories, each with all its replicas.

The checkpoints of a log directory say up to which offset a log must be complete: the high watermark
and the recovery point.  A corrupt checkpoint is a finding, and the audit continues without it.

    missing log file    a segment of which only index files exist has lost its batches

Owner: the planner; the plan is immutable and can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.audit.findings import Finding, Severity
from odradek.spark_jobs.scan.catalog import (
    LogDirListing,
    PartitionLog,
    list_log_dir,
    load_partition_log,
    read_offset_checkpoint,
)
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.file_access import file_system_for, join_path
from odradek.storage.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    OffsetCheckpointFile,
)
from odradek.storage.paths import FileName, FileStage, LogFileType, parse_file_name

PartitionFilter = Callable[[str, int], bool]


@dataclass(frozen=True, slots=True)
class Replica:
    """The replica of a partition in one log directory."""

    log: PartitionLog
    recovery_point: int | None
    is_compacted: bool  # according to the cleaner's checkpoint
    missing_log_files: tuple[FileName, ...]  # .log files of which only the indexes exist

    @property
    def expected_end_offset(self) -> int | None:
        """The offset below which everything is known to have been written."""
        known = [self.log.high_watermark, self.recovery_point]
        return max((offset for offset in known if offset is not None), default=None)


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """A partition with its replicas, the one with the highest high watermark first."""

    topic: str
    partition: int
    replicas: tuple[Replica, ...]

    @property
    def size_bytes(self) -> int:
        segments = [segment for replica in self.replicas for segment in replica.log.segments]
        return sum(segment.size_bytes for segment in segments)


@dataclass(frozen=True, slots=True)
class AuditPlan:
    partitions: tuple[PartitionReplicas, ...]
    findings: tuple[Finding, ...]  # about log directories


def plan(paths: tuple[str, ...], partition_filter: PartitionFilter) -> AuditPlan:
    """Raise ScanFailed if one of the paths is not a log directory or partition directory."""
    findings: list[Finding] = []
    replicas: dict[TopicPartition, list[Replica]] = {}
    for path in paths:
        listing = list_log_dir(path)
        checkpoints = _Checkpoints(listing, findings)
        for partition, directory in listing.partitions.items():
            if partition_filter(*partition):
                replica = checkpoints.load_replica(partition, directory)
                replicas.setdefault(partition, []).append(replica)
    return AuditPlan(
        tuple(
            PartitionReplicas(
                *partition, tuple(sorted(replicas[partition], key=_progress, reverse=True))
            )
            for partition in sorted(replicas)
        ),
        tuple(findings),
    )


def _progress(replica: Replica) -> int:
    watermark = replica.log.high_watermark
    return -1 if watermark is None else watermark


class _Checkpoints:
    """The checkpoints of one log directory; a corrupt one adds a finding and is ignored."""

    def __init__(self, listing: LogDirListing, findings: list[Finding]) -> None:
        self._log_dir = listing.log_dir
        self._findings = findings
        self._high_watermarks = self._read(HIGH_WATERMARKS)
        self._log_start_offsets = self._read(LOG_START_OFFSETS) or {}
        self._recovery_points = self._read(RECOVERY_POINTS) or {}
        self._cleaner_offsets = self._read(CLEANER_OFFSETS) or {}

    def _read(self, checkpoint: OffsetCheckpointFile) -> dict[TopicPartition, int] | None:
        try:
            return read_offset_checkpoint(self._log_dir, checkpoint)
        except ScanFailed as error:
            path = join_path(self._log_dir, checkpoint.name)
            what = str(error)
            self._findings.append(Finding(Severity.WARNING, None, None, path, None, None, what))
            return None

    def load_replica(self, partition: TopicPartition, directory: str) -> Replica:
        watermark = (
            None if self._high_watermarks is None else self._high_watermarks.get(partition, 0)
        )
        return Replica(
            load_partition_log(
                partition, directory, self._log_start_offsets.get(partition, 0), watermark
            ),
            self._recovery_points.get(partition),
            partition in self._cleaner_offsets,
            _find_missing_log_files(directory),
        )


def reload_replica(replica: Replica) -> Replica | None:
    """Read the directory of the replica again; return None if it no longer exists."""
    log = replica.log
    partition = TopicPartition(log.topic, log.partition)
    try:
        current = load_partition_log(
            partition, log.directory, log.log_start_offset, log.high_watermark
        )
        return replace(
            replica, log=current, missing_log_files=_find_missing_log_files(log.directory)
        )
    except FileNotFoundError:
        return None


def _find_missing_log_files(directory: str) -> tuple[FileName, ...]:
    """Return the .log files that are missing beside index files in use."""
    names = [
        file_name
        for name in file_system_for(directory).list_names(directory)
        if (file_name := parse_file_name(name))
    ]
    index_types = (LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX, LogFileType.TRANSACTION_INDEX)
    index_offsets = {
        name.offset
        for name in names
        if name.file_type in index_types and name.stage is FileStage.IN_USE
    }
    stages = (FileStage.IN_USE, FileStage.SWAP)
    log_offsets = {
        name.offset for name in names if name.file_type is LogFileType.LOG and name.stage in stages
    }
    return tuple(
        FileName(offset, LogFileType.LOG) for offset in sorted(index_offsets - log_offsets)
    )
