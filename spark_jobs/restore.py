"""Restore: an export back into topics, through a producer.

    partitions  records sent, and records that an earlier attempt had sent before

Records keep their partition, their order in it, key, value, headers and timestamp.  The target
assigns new offsets.  Several exports, each made with --since-export of the one before, are restored
as one.

The target must have enough partitions, and they must be empty unless --resume or --append is given.
--resume continues an interrupted restore: a partition may hold the first records of the export and
no others; its last record is compared with the export.

confluent-kafka must be installed on every worker.  --property passes settings to it, such as
security.protocol=SASL_SSL or compression.type=zstd.

Examples:
  odradek spark restore /backup/orders-1 --bootstrap-server localhost:9092 --create
  odradek spark restore /backup/orders-1 /backup/orders-2 --bootstrap-server localhost:9092 \\
      --rename orders=orders-again --create --topic-config retention.ms=-1
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from odradek.spark_jobs.job_runner.job import Job, JobContext, JobFailed
from odradek.spark_jobs.job_runner.result import Result, Table
from odradek.spark_jobs.job_runner.selection import parse_partition_options
from odradek.spark_jobs.source.worker_packages import report_missing_packages

if TYPE_CHECKING:
    from odradek.spark_jobs.transfer.partition_restore import (
        PartitionRestore,
        RestoreMode,
        RestoreResult,
    )
    from odradek.spark_jobs.transfer.target_cluster import TopicCreation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bootstrap-server", "--bootstrap", metavar="HOST:PORT", required=True, dest="bootstrap"
    )
    parser.add_argument(
        "--property",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_parse_pair,
        help="librdkafka setting; may be repeated",
    )
    parser.add_argument(
        "--rename",
        metavar="OLD=NEW",
        action="append",
        default=[],
        type=_parse_pair,
        help="restore a topic under another name; may be repeated",
    )
    parser.add_argument(
        "--create",
        action="store_true",
        help="create missing topics, with the partition count of the exported topic",
    )
    parser.add_argument("--replication-factor", metavar="N", type=int, default=-1)
    parser.add_argument(
        "--topic-config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_parse_pair,
        help="setting of created topics; may be repeated",
    )
    mode_group = parser.add_mutually_exclusive_group()
    mode_group.add_argument(
        "--resume",
        action="store_true",
        help="continue after the records of this export that are already in the target",
    )
    mode_group.add_argument(
        "--append", action="store_true", help="send all records after those in the target"
    )


def _parse_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r}: must be NAME=VALUE")
    return name, value


def run(context: JobContext) -> Result:
    from odradek.spark_jobs.transfer.partition_restore import RestoreMode
    from odradek.spark_jobs.transfer.restore_plan import plan_restore
    from odradek.spark_jobs.transfer.target_cluster import TargetCluster, check_empty, ensure_topics

    options = parse_partition_options(
        context, "not supported: a restore sends whole partitions of an export"
    )
    settings = {**dict(context.args.property), "bootstrap.servers": context.args.bootstrap}
    target = TargetCluster(settings)
    mode = _restore_mode(context)
    plan = plan_restore(options, dict(context.args.rename), mode)
    ensure_topics(target, plan.partitions_by_topic, plan.partition_counts, _topic_creation(context))
    if mode is RestoreMode.INTO_EMPTY:
        check_empty(target, plan.partitions_by_topic)
    records = sum(restore.records for restore in plan.restores)
    context.report_progress(f"sending {records} records of {len(plan.restores)} partition(s)")
    results = _restore_partitions(context, plan.restores, settings)
    sent = sum(result.records for result in results)
    context.report_progress(
        f"{sent} records sent, {sum(result.present for result in results)} already present"
    )
    return Result([_result_table(results)])


def _restore_mode(context: JobContext) -> RestoreMode:
    from odradek.spark_jobs.transfer.partition_restore import RestoreMode

    if context.args.resume:
        return RestoreMode.RESUME
    return RestoreMode.APPEND if context.args.append else RestoreMode.INTO_EMPTY


def _topic_creation(context: JobContext) -> TopicCreation | None:
    from odradek.spark_jobs.transfer.target_cluster import TopicCreation

    args = context.args
    return TopicCreation(args.replication_factor, dict(args.topic_config)) if args.create else None


def _restore_partitions(
    context: JobContext, restores: Sequence[PartitionRestore], settings: Mapping[str, str]
) -> list[RestoreResult]:
    if not restores:
        return []

    def restore_in_worker(restore: PartitionRestore) -> RestoreResult:
        """Run in a Spark worker."""
        with report_missing_packages():
            from odradek.spark_jobs.transfer.partition_restore import restore_partition

            return restore_partition(_resume_if_retried(restore), settings, _print_progress)

    tasks = context.session.sparkContext.parallelize(restores, len(restores))
    results: list[RestoreResult] = tasks.map(restore_in_worker).collect()
    return results


def _resume_if_retried(restore: PartitionRestore) -> PartitionRestore:
    """Resume if Spark retries a failed task, which has sent some of the records already."""
    from pyspark import TaskContext

    from odradek.spark_jobs.transfer.partition_restore import RestoreMode

    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        return restore
    if restore.mode is RestoreMode.APPEND:
        raise JobFailed(f"{restore}: not retried, since --append would send some records twice")
    return replace(restore, mode=RestoreMode.RESUME)


def _print_progress(line: str) -> None:
    sys.stderr.write(f"odradek restore: {line}\n")
    sys.stderr.flush()


def _result_table(results: Sequence[RestoreResult]) -> Table:
    import pyarrow as pa

    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("records", pa.int64()),
            ("present", pa.int64()),
        ]
    )
    rows = [{name: getattr(result, name) for name in schema.names} for result in results]
    return Table("partitions", "Restored partitions", pa.Table.from_pylist(rows, schema))


JOB = Job("restore", __doc__ or "", add_arguments, run, reports_damage=False)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
