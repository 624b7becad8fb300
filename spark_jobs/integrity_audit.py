"""Integrity audit: check batches, indexes, snapshots and epochs, and compare replicas.

    findings    a row for each inconsistency: severity, file, position, offset, and what is wrong
    partitions  the audited partitions

    batches     checksums are right; offsets ascend and stay in their segment; records can be
                decoded; nothing below the high watermark and the recovery point is missing
    indexes     offset, time and transaction index of each segment agree with its batches
    producers   snapshots: checksums, last batches, open transactions
    epochs      the leader epoch checkpoint agrees with the batches
    replicas    with the log directories of several brokers: a partition that is in more than one
                is compared batch by batch, up to the lowest high watermark

error: a reader gets wrong records, or none.  warning: a broker rebuilds or truncates it when it
starts.  The exit status is 1 if there are findings.  The audit changes no file.

Examples:
  odradek spark integrity-audit /var/lib/kafka
  odradek spark integrity-audit /mnt/broker1 /mnt/broker2 /mnt/broker3 --topics orders
  odradek spark integrity-audit /var/lib/kafka --output html --to audit.html
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.job_runner.job import Job, JobContext, JobFailed, add_no_arguments
from odradek.spark_jobs.job_runner.result import Chart, ChartType, Result, Table
from odradek.spark_jobs.job_runner.selection import parse_partition_options
from odradek.spark_jobs.source.worker_packages import report_missing_packages

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark_jobs.audit.directories import PartitionReplicas
    from odradek.spark_jobs.audit.partition_audit import PartitionAudit, ReplicaSummary

FINDINGS_STATUS = 1
FINDINGS_CHART = Chart("Findings by directory", ChartType.BARS, "directory", "findings")
TASK_BYTES = 16 * 1024 * 1024
#: Estimated cost of opening a partition's files, in bytes that could be read in that time.
OPEN_COST_BYTES = 1024 * 1024


def run(context: JobContext) -> Result:
    from odradek.spark_jobs.audit.directories import plan
    from odradek.spark_jobs.audit.findings import build_findings_table
    from odradek.spark_jobs.scan.catalog import check_partitions_exist
    from odradek.spark_jobs.scan.plan import retry_on_missing_file

    options = parse_partition_options(context, "not supported: an audit reads whole partitions")
    audit_plan = retry_on_missing_file(lambda: plan(options.paths, options.selects))
    partitions = audit_plan.partitions
    check_partitions_exist(
        options, [TopicPartition(each.topic, each.partition) for each in partitions]
    )
    if not partitions:
        raise JobFailed("no partition in these directories matches the selection")
    replica_count = sum(len(each.replicas) for each in partitions)
    context.report_progress(
        f"auditing {len(partitions)} partition(s) in {replica_count} directories"
    )
    tasks = group_into_tasks(partitions)
    rdd = context.session.sparkContext.parallelize(tasks, len(tasks))
    audits: list[PartitionAudit] = rdd.flatMap(audit_partitions).collect()
    findings = [*audit_plan.findings, *(finding for audit in audits for finding in audit.findings)]
    context.report_progress(f"{len(findings)} finding(s)")
    summaries = [summary for audit in audits for summary in audit.summaries]
    summaries.sort(key=lambda summary: -summary.findings)
    return Result(
        [
            Table("findings", "Findings", build_findings_table(findings)),
            Table(
                "partitions",
                "Partitions",
                _summary_table(summaries),
                (FINDINGS_CHART,) if findings else (),
            ),
        ],
        exit_status=FINDINGS_STATUS if findings else 0,
    )


def group_into_tasks(partitions: Sequence[PartitionReplicas]) -> list[list[PartitionReplicas]]:
    """Group the partitions by size: a task costs milliseconds, so small partitions share one."""
    tasks: list[list[PartitionReplicas]] = []
    task_bytes = TASK_BYTES
    for partition in partitions:
        if task_bytes >= TASK_BYTES:
            tasks.append([])
            task_bytes = 0
        tasks[-1].append(partition)
        task_bytes += partition.size_bytes + OPEN_COST_BYTES
    return tasks


def audit_partitions(partitions: Sequence[PartitionReplicas]) -> list[PartitionAudit]:
    """Run in a Spark worker."""
    with report_missing_packages():
        from odradek.spark_jobs.audit.partition_audit import audit

        return [audit(partition) for partition in partitions]


def _summary_table(summaries: Sequence[ReplicaSummary]) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("directory", pa.string()),
            ("segments", pa.int64()),
            ("batches", pa.int64()),
            ("sizeBytes", pa.int64()),
            ("startOffset", pa.int64()),
            ("endOffset", pa.int64()),
            ("highWatermark", pa.int64()),
            ("findings", pa.int64()),
        ]
    )
    rows = [tuple(asdict(summary).values()) for summary in summaries]
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


JOB = Job("integrity-audit", __doc__ or "", add_no_arguments, run, reports_damage=False)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
