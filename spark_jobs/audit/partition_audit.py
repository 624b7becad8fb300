"""The audit of a partition: each of its replicas by itself, then one against the other.

    for audited in audit(partition):      # from directories.plan
        print(*audited.findings)

Owner: whoever audits.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.spark_jobs.audit.directories import PartitionReplicas
from odradek.spark_jobs.audit.findings import Finding
from odradek.spark_jobs.audit.log_audit import AuditedLog, audit_log
from odradek.spark_jobs.audit.replica_checks import replica_findings
from odradek.spark_jobs.scan.walk import check_can_check


@dataclass(frozen=True, slots=True)
class Summary:
    """What was looked at, of one replica."""

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
    summaries: tuple[Summary, ...]


def audit(partition: PartitionReplicas) -> PartitionAudit:
    """Everything that is wrong with a partition; reads all of it once."""
    check_can_check()
    audited = [audit_log(replica) for replica in partition.replicas]
    compared = list(replica_findings(audited))
    own = [finding for each in audited for finding in each.findings]
    return PartitionAudit(
        tuple(own + compared), tuple(_summary(each, compared) for each in audited)
    )


def _summary(audited: AuditedLog, compared: list[Finding]) -> Summary:
    log = audited.log
    inside = f"{log.directory}/"
    return Summary(
        topic=log.topic,
        partition=log.partition,
        directory=log.directory,
        segments=len(audited.segments),
        batches=sum(len(segment.rows) for segment in audited.segments),
        size_bytes=sum(segment.segment.size_bytes for segment in audited.segments),
        start_offset=log.log_start_offset,
        end_offset=audited.next_offset,
        high_watermark=log.high_watermark,
        findings=len(audited.findings)
        + sum(1 for each in compared if f"{each.file}/".startswith(inside)),
    )
