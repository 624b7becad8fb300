"""Read by every Python that Spark starts in tests: what its processes need is imported beforehand.

For every query Spark asks a new process what the source has, and another what is to be read.  They
are forked from daemons that import next to nothing, so that each would spend its time on that.
"""

import sys
from importlib import import_module

NEEDED = (
    "pyarrow.compute",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker",
    "odradek.spark_jobs.scan.scanner",
    "odradek.spark_jobs.source.damage_report",
    "odradek.spark_jobs.source.data_source",
)

if "pyspark.daemon" in sys.orig_argv:
    for name in NEEDED:
        import_module(name)
