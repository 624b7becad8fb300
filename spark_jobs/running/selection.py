"""Former names of ``odradek.spark_jobs.job_runner.selection``."""

from odradek.spark_jobs.job_runner.selection import PARTITION_OPTIONS as OF_PARTITIONS
from odradek.spark_jobs.job_runner.selection import check_id_exists as check_known
from odradek.spark_jobs.job_runner.selection import check_topics_exist as check_topics_known
from odradek.spark_jobs.job_runner.selection import parse_partition_options as chosen_partitions

__all__ = ["OF_PARTITIONS", "check_known", "check_topics_known", "chosen_partitions"]
