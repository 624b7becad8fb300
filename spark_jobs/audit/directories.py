"""What is to be audited: the partitions in log directories, each with all its replicas.

A log directory's checkpoints say what must be there: everything below the high watermark, and below
the recovery point, which has been synced.  One that makes no sense is a finding, and the audit goes
on without what it would have said.

    .log missing    a segment is there if its batches are; if only its indexes are, it is lost

Owner: whoever plans; what it makes is immutable and can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.audit.findings import Finding, Severity
from odradek.spark_jobs.scan.catalog import (
    Directories,
    PartitionLog,
    directories_at,
    offsets_in,
    partition_log,
)
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.file_access import file_system_of, joined
from odradek.storage.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    OffsetCheckpoint,
)
from odradek.storage.paths import Content, FileName, Stage, file_named

Wanted = Callable[[str, int], bool]


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition in one log directory."""

    log: PartitionLog
    recovery_point: int | None
    is_compacted: bool  # as far as the cleaner's checkpoint says
    missing: tuple[FileName, ...]  # files of batches

    @property
    def complete_to(self) -> int | None:
        """The offset up to which everything is known to have been written."""
        known = [self.log.high_watermark, self.recovery_point]
        return max((offset for offset in known if offset is not None), default=None)


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """The one that is furthest comes first."""

    topic: str
    partition: int
    replicas: tuple[Replica, ...]

    @property
    def size_bytes(self) -> int:
        segments = [segment for replica in self.replicas for segment in replica.log.segments]
        return sum(segment.size_bytes for segment in segments)


@dataclass(frozen=True, slots=True)
class Plan:
    partitions: tuple[PartitionReplicas, ...]
    findings: tuple[Finding, ...]  # about log directories


def plan(paths: tuple[str, ...], wants: Wanted) -> Plan:
    """ScanFailed if one of the paths is no such directory."""
    findings: list[Finding] = []
    found: dict[TopicPartition, list[Replica]] = {}
    for path in paths:
        directories = directories_at(path)
        checkpoints = _Checkpoints(directories, findings)
        for partition, directory in directories.partitions.items():
            if wants(*partition):
                replica = checkpoints.replica(partition, directory)
                found.setdefault(partition, []).append(replica)
    return Plan(
        tuple(
            PartitionReplicas(*partition, tuple(sorted(found[partition], key=_reach, reverse=True)))
            for partition in sorted(found)
        ),
        tuple(findings),
    )


def _reach(replica: Replica) -> int:
    watermark = replica.log.high_watermark
    return -1 if watermark is None else watermark


class _Checkpoints:
    """Those of one log directory; a damaged one becomes a finding and says nothing."""

    def __init__(self, directories: Directories, findings: list[Finding]) -> None:
        self._log_dir = directories.log_dir
        self._findings = findings
        self._watermarks = self._read(HIGH_WATERMARKS)
        self._starts = self._read(LOG_START_OFFSETS) or {}
        self._recovery_points = self._read(RECOVERY_POINTS) or {}
        self._cleaned = self._read(CLEANER_OFFSETS) or {}

    def _read(self, file: OffsetCheckpoint) -> dict[TopicPartition, int] | None:
        try:
            return offsets_in(self._log_dir, file)
        except ScanFailed as damaged:
            path = joined(self._log_dir, file.name)
            what = str(damaged)
            self._findings.append(Finding(Severity.WARNING, None, None, path, None, None, what))
            return None

    def replica(self, partition: TopicPartition, directory: str) -> Replica:
        watermark = None if self._watermarks is None else self._watermarks.get(partition, 0)
        return Replica(
            partition_log(partition, directory, self._starts.get(partition, 0), watermark),
            self._recovery_points.get(partition),
            partition in self._cleaned,
            _missing(directory),
        )


def looked_at_again(replica: Replica) -> Replica | None:
    """As its directory is by now; None if it is gone."""
    log = replica.log
    partition = TopicPartition(log.topic, log.partition)
    try:
        current = partition_log(partition, log.directory, log.log_start_offset, log.high_watermark)
        return replace(replica, log=current, missing=_missing(log.directory))
    except FileNotFoundError:
        return None


def _missing(directory: str) -> tuple[FileName, ...]:
    """The files of batches that should stand beside indexes in use."""
    names = [
        known for name in file_system_of(directory).names(directory) if (known := file_named(name))
    ]
    indexes = (Content.OFFSET_INDEX, Content.TIME_INDEX, Content.TRANSACTION_INDEX)
    in_use = {
        each.offset for each in names if each.content in indexes and each.stage is Stage.IN_USE
    }
    stages = (Stage.IN_USE, Stage.SWAP)
    there = {
        each.offset for each in names if each.content is Content.BATCHES and each.stage in stages
    }
    return tuple(FileName(offset, Content.BATCHES) for offset in sorted(in_use - there))
