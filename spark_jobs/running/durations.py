"""Former names of ``odradek.spark_jobs.job_runner.durations``."""

from odradek.spark_jobs.job_runner.durations import BUCKETS_MAX
from odradek.spark_jobs.job_runner.durations import choose_bucket_ms as bucket_ms
from odradek.spark_jobs.job_runner.durations import parse_duration_ms as duration_ms

__all__ = ["BUCKETS_MAX", "bucket_ms", "duration_ms"]
