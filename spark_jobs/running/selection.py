"""Which partitions a job is about, if it cannot be about a part of one.

Owner: the driver's only thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.spark_jobs.running.flags import READING, SELECTION
from odradek.spark_jobs.running.job import Call, JobFailed

if TYPE_CHECKING:
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
