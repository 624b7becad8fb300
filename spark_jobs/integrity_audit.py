"""Integrity audit: checksums, offsets, indexes against logs, replicas against replicas.

    findings    a row for each place where a file does not say what it should: severity, file,
                position, offset, and what is wrong
    partitions  what was looked at

    batches     checksums; offsets that ascend and stay in their segment; records that can be read;
                everything that is there by the high watermark and the recovery point
    indexes     offset, time and transaction index of each segment, against its batches
    producers   snapshots: checksums, last batches, open transactions
    epochs      the leader epoch checkpoint, against the batches
    replicas    give the log directories of several brokers: partitions that are in more than one
                are compared, batch by batch, up to the lowest high watermark

error: a reader gets wrong records, or none.  warning: a broker makes it anew, or cuts it off, when
it starts.  The exit status is 1 if there are findings.  Nothing is changed.

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
FINDINGS_CHART = Chart("Where there is most", ChartType.BARS, "directory", "findings")
TASK_BYTES = 16 * 1024 * 1024
#: What opening a partition's files costs, in bytes that could be read meanwhile; a guess.
OPEN_COST_BYTES = 1024 * 1024


def run(context: JobContext) -> Result:
    from odradek.spark_jobs.audit.directories import plan
    from odradek.spark_jobs.audit.findings import build_findings_table
    from odradek.spark_jobs.scan.catalog import check_partitions_exist
    from odradek.spark_jobs.scan.plan import retry_on_missing_file

    options = parse_partition_options(context, "an audit looks at whole partitions")
    audit_plan = retry_on_missing_file(lambda: plan(options.paths, options.selects))
    partitions = audit_plan.partitions
    check_partitions_exist(
        options, [TopicPartition(each.topic, each.partition) for each in partitions]
    )
    if not partitions:
        raise JobFailed("none of these partitions is there")
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
    """The partitions of each task: a task takes some milliseconds, so small ones share one."""
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
    """In a worker."""
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
