"""Selection of whole partitions, and checks that the topics and ids that the user names exist.

A name that does not exist is an error, as with the source, unless failOnDataLoss is false: an empty
result would look like one without problems.

Owner: the driver's only thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.job_runner.flags import READ_FLAGS, SELECTION_FLAGS
from odradek.spark_jobs.job_runner.job import JobContext, JobFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from odradek.spark_jobs.scan.options import ScanOptions

PARTITION_OPTIONS = ("path", "topics", "topicsPattern", "assign")


def parse_partition_options(context: JobContext, reason: str) -> ScanOptions:
    """Parse paths and topic flags; reject other flags with ``reason``."""
    from odradek.spark_jobs.scan.options import parse_options

    options = context.options
    for flag in (*SELECTION_FLAGS, *READ_FLAGS):
        if flag.option in options and flag.option not in PARTITION_OPTIONS:
            raise JobFailed(f"{flag.name}: {reason}")
    return parse_options(options)


def check_topics_exist(options: ScanOptions, other_partitions: Iterable[TopicPartition]) -> None:
    """Raise JobFailed if a named topic or partition is neither in a path nor in the others."""
    from odradek.spark_jobs.scan.catalog import check_partitions_exist, list_log_dir

    listings = map(list_log_dir, options.paths)
    check_partitions_exist(
        options,
        {
            *other_partitions,
            *(partition for listing in listings for partition in listing.partitions),
        },
    )


def check_id_exists(context: JobContext, id_value: str, id_kind: str, records: DataFrame) -> None:
    """Raise JobFailed if ``records``, those of a group or transactional id, are empty."""
    from odradek.spark_jobs.scan.options import parse_options

    options = parse_options(context.options)
    if options.fail_on_data_loss and records.isEmpty():
        paths = ", ".join(options.paths)
        raise JobFailed(
            f"{id_value}: no such {id_kind} in {paths}; failOnDataLoss=false continues without it"
        )
