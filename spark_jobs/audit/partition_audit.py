"""Audit of a partition: each of its replicas, then the replicas compared with each other.

    for partition in plan(paths, partition_filter).partitions:      # plan of directories.py
        print(*audit(partition).findings)

Owner: the task that audits the partition.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.spark_jobs.audit.directories import PartitionReplicas
from odradek.spark_jobs.audit.findings import Finding
from odradek.spark_jobs.audit.log_audit import AuditedLog, audit_log
from odradek.spark_jobs.audit.replica_checks import compare_replicas
from odradek.spark_jobs.scan.segment_reader import check_crc32c_available


@dataclass(frozen=True, slots=True)
class ReplicaSummary:
    """The audited replica: extent and number of findings."""

    topic: str
    partition: int
    directory: str
    segments: int
    batches: int
    size_bytes: int
    start_offset: int
    end_offset: int
    high_watermark: int | None
    findings: int


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    findings: tuple[Finding, ...]
    summaries: tuple[ReplicaSummary, ...]


def audit(partition: PartitionReplicas) -> PartitionAudit:
    """Return all findings of a partition; reads every byte of it once."""
    check_crc32c_available()
    audited = [audit_log(replica) for replica in partition.replicas]
    compared = list(compare_replicas(audited))
    single = [finding for audited_log in audited for finding in audited_log.findings]
    return PartitionAudit(
        tuple(single + compared),
        tuple(_summarize(audited_log, compared) for audited_log in audited),
    )


def _summarize(audited_log: AuditedLog, replica_findings: list[Finding]) -> ReplicaSummary:
    log = audited_log.log
    prefix = f"{log.directory}/"
    return ReplicaSummary(
        topic=log.topic,
        partition=log.partition,
        directory=log.directory,
        segments=len(audited_log.segments),
        batches=sum(len(segment.rows) for segment in audited_log.segments),
        size_bytes=sum(segment.segment.size_bytes for segment in audited_log.segments),
        start_offset=log.log_start_offset,
        end_offset=audited_log.log_end_offset,
        high_watermark=log.high_watermark,
        findings=len(audited_log.findings)
        + sum(1 for finding in replica_findings if f"{finding.file}/".startswith(prefix)),
    )
