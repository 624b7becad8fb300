"""What a job is about: whole partitions, if it cannot be about a part of one, or what was named.

Whoever names something that is not there is told so, as by the source itself, unless
failOnDataLoss is false: nothing found would be taken for nothing wrong.

Owner: the driver's only thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.running.flags import READING, SELECTION
from odradek.spark_jobs.running.job import Call, JobFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from odradek.spark_jobs.scan.options import Options

OF_PARTITIONS = ("path", "topics", "topicsPattern", "assign")


def chosen_partitions(call: Call, why: str) -> Options:
    """The paths and the choice of topics; ``why`` says what is wrong with any other flag."""
    from odradek.spark_jobs.scan.options import options_of

    given = call.options
    for flag in (*SELECTION, *READING):
        if flag.option in given and flag.option not in OF_PARTITIONS:
            raise JobFailed(f"{flag.name}: {why}")
    return options_of(given)


def check_topics_known(options: Options, others: Iterable[TopicPartition]) -> None:
    """JobFailed if a topic or partition was named that is in no path, nor one of the others."""
    from odradek.spark_jobs.scan.catalog import check_named, directories_at

    directories = map(directories_at, options.paths)
    check_named(options, {*others, *(each for found in directories for each in found.partitions)})


def check_known(call: Call, name: str, what: str, records: DataFrame) -> None:
    """JobFailed if there is not one of the records that tell of a group, or transactional id."""
    from odradek.spark_jobs.scan.options import options_of

    options = options_of(call.options)
    if options.fail_on_data_loss and records.isEmpty():
        where = ", ".join(options.paths)
        raise JobFailed(f"{name}: no such {what} in {where}; failOnDataLoss=false goes on without")
