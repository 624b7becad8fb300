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
from odradek.spark_jobs.running.job import Call, Job, JobFailed, no_arguments
from odradek.spark_jobs.running.result import Chart, Result, Shape, Table
from odradek.spark_jobs.running.selection import chosen_partitions
from odradek.spark_jobs.source.workers import needing_wheels

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark_jobs.audit.directories import PartitionReplicas
    from odradek.spark_jobs.audit.partition_audit import PartitionAudit, Summary

FOUND = 1
CHART = Chart("Where there is most", Shape.BARS, "directory", "findings")
TASK_BYTES = 16 * 1024 * 1024
#: What opening a partition's files costs, in bytes that could be read meanwhile; a guess.
OPENING_BYTES = 1024 * 1024


def run(call: Call) -> Result:
    from odradek.spark_jobs.audit.directories import plan
    from odradek.spark_jobs.audit.findings import table_of
    from odradek.spark_jobs.scan.catalog import check_named
    from odradek.spark_jobs.scan.plan import undisturbed

    options = chosen_partitions(call, "an audit looks at whole partitions")
    planned = undisturbed(lambda: plan(options.paths, options.wants))
    units = planned.partitions
    check_named(options, [TopicPartition(unit.topic, unit.partition) for unit in units])
    if not units:
        raise JobFailed("none of these partitions is there")
    replicas = sum(len(unit.replicas) for unit in units)
    call.progress(f"looking at {len(units)} partitions in {replicas} directories")
    tasks = shared_out(units)
    shared = call.session.sparkContext.parallelize(tasks, len(tasks))
    audits: list[PartitionAudit] = shared.flatMap(audited).collect()
    findings = [*planned.findings, *(found for audit in audits for found in audit.findings)]
    call.progress(f"{len(findings)} findings")
    summaries = [summary for audit in audits for summary in audit.summaries]
    summaries.sort(key=lambda summary: -summary.findings)
    return Result(
        [
            Table("findings", "Findings", table_of(findings)),
            Table("partitions", "Partitions", _table(summaries), (CHART,) if findings else ()),
        ],
        exit_status=FOUND if findings else 0,
    )


def shared_out(units: Sequence[PartitionReplicas]) -> list[list[PartitionReplicas]]:
    """The partitions of each task: a task takes some milliseconds, so small ones share one."""
    tasks: list[list[PartitionReplicas]] = []
    taken_bytes = TASK_BYTES
    for unit in units:
        if taken_bytes >= TASK_BYTES:
            tasks.append([])
            taken_bytes = 0
        tasks[-1].append(unit)
        taken_bytes += unit.size_bytes + OPENING_BYTES
    return tasks


def audited(units: Sequence[PartitionReplicas]) -> list[PartitionAudit]:
    """In a worker."""
    with needing_wheels():
        from odradek.spark_jobs.audit.partition_audit import audit

        return [audit(unit) for unit in units]


def _table(summaries: Sequence[Summary]) -> pa.Table:
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


JOB = Job("integrity-audit", __doc__ or "", no_arguments, run, tells_damage=False)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
