"""Former names of ``odradek.spark_jobs.job_runner.flags``."""

from odradek.spark_jobs.job_runner.flags import READ_FLAGS as READING
from odradek.spark_jobs.job_runner.flags import SELECTION_FLAGS as SELECTION
from odradek.spark_jobs.job_runner.flags import Flag, add_flags, add_paths
from odradek.spark_jobs.job_runner.flags import collect_options as options_given
from odradek.spark_jobs.job_runner.flags import parse_timestamp_ms as milliseconds

__all__ = [
    "READING",
    "SELECTION",
    "Flag",
    "add_flags",
    "add_paths",
    "milliseconds",
    "options_given",
]
