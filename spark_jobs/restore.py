"""Restore: an export back into topics, through a producer.

    partitions  what was sent, and what an earlier attempt had sent before

Records keep their partition, their order in it, key, value, headers and timestamp; their offsets
are the target's own.  Several exports, each --since-export the one before, are restored as one.

The target must have enough partitions, and no records in them, unless --resume or --append says so.
--resume goes on after a restore that was broken off: a partition may hold the first records of the
export and no others, and its last one is compared.

Needs confluent-kafka on every worker.  Settings of its own are passed on with --property, such as
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

from odradek.spark_jobs.running.job import Call, Job, JobFailed
from odradek.spark_jobs.running.result import Result, Table
from odradek.spark_jobs.running.selection import chosen_partitions
from odradek.spark_jobs.source.workers import needing_wheels

if TYPE_CHECKING:
    from odradek.spark_jobs.transfer.restoring import PartitionRestore, Presence, Restored
    from odradek.spark_jobs.transfer.target import Creation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bootstrap-server", "--bootstrap", metavar="HOST:PORT", required=True, dest="bootstrap"
    )
    parser.add_argument(
        "--property",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_pair,
        help="a setting of librdkafka; may be repeated",
    )
    parser.add_argument(
        "--rename",
        metavar="OLD=NEW",
        action="append",
        default=[],
        type=_pair,
        help="restore a topic under another name; may be repeated",
    )
    parser.add_argument(
        "--create",
        action="store_true",
        help="create topics that are not there, with as many partitions as they had",
    )
    parser.add_argument("--replication-factor", metavar="N", type=int, default=-1)
    parser.add_argument(
        "--topic-config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_pair,
        help="a setting of topics that are created; may be repeated",
    )
    presence = parser.add_mutually_exclusive_group()
    presence.add_argument(
        "--resume",
        action="store_true",
        help="go on after the records of this export that are there",
    )
    presence.add_argument("--append", action="store_true", help="send all, behind what is there")


def _pair(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"not NAME=VALUE: {written!r}")
    return name, value


def run(call: Call) -> Result:
    from odradek.spark_jobs.transfer.restore_plan import plan_restore
    from odradek.spark_jobs.transfer.restoring import Presence
    from odradek.spark_jobs.transfer.target import Target, check_empty, prepare

    options = chosen_partitions(call, "a restore sends whole partitions of an export")
    settings = {**dict(call.args.property), "bootstrap.servers": call.args.bootstrap}
    target = Target(settings)
    presence = _presence(call)
    planned = plan_restore(options, dict(call.args.rename), presence)
    prepare(target, planned.needed, planned.partition_counts, _creation(call))
    if presence is Presence.NONE:
        check_empty(target, planned.needed)
    records = sum(restore.records for restore in planned.restores)
    call.progress(f"sending {records} records of {len(planned.restores)} partitions")
    restored = _restored(call, planned.restores, settings)
    sent = sum(each.records for each in restored)
    call.progress(f"{sent} records sent, {sum(each.present for each in restored)} were there")
    return Result([_table(restored)])


def _presence(call: Call) -> Presence:
    from odradek.spark_jobs.transfer.restoring import Presence

    if call.args.resume:
        return Presence.RESUME
    return Presence.APPEND if call.args.append else Presence.NONE


def _creation(call: Call) -> Creation | None:
    from odradek.spark_jobs.transfer.target import Creation

    args = call.args
    return Creation(args.replication_factor, dict(args.topic_config)) if args.create else None


def _restored(
    call: Call, restores: Sequence[PartitionRestore], settings: Mapping[str, str]
) -> list[Restored]:
    if not restores:
        return []

    def restored(restore: PartitionRestore) -> Restored:
        """In a worker."""
        with needing_wheels():
            from odradek.spark_jobs.transfer.restoring import restore_partition

            return restore_partition(_of_this_attempt(restore), settings, _report)

    tasks = call.session.sparkContext.parallelize(restores, len(restores))
    done: list[Restored] = tasks.map(restored).collect()
    return done


def _of_this_attempt(restore: PartitionRestore) -> PartitionRestore:
    """Spark tries again what has failed; what was sent by then must not be sent twice."""
    from pyspark import TaskContext

    from odradek.spark_jobs.transfer.restoring import Presence

    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        return restore
    if restore.presence is Presence.APPEND:
        raise JobFailed(f"{restore}: a part of it was sent, and would be sent again")
    return replace(restore, presence=Presence.RESUME)


def _report(line: str) -> None:
    sys.stderr.write(f"odradek restore: {line}\n")
    sys.stderr.flush()


def _table(restored: Sequence[Restored]) -> Table:
    import pyarrow as pa

    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("records", pa.int64()),
            ("present", pa.int64()),
        ]
    )
    rows = [{name: getattr(each, name) for name in schema.names} for each in restored]
    return Table("partitions", "Restored partitions", pa.Table.from_pylist(rows, schema))


JOB = Job("restore", __doc__ or "", add_arguments, run, tells_damage=False)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
