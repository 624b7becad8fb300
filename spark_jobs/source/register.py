"""Make the format ``odradek`` known to a Spark session.

    register(session)
    session.read.format("odradek").option("topics", "orders").load("/var/lib/kafka")

``--py-files`` brings the code to the workers, but registers nothing.

Owner: none.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from odradek.spark_jobs.source.data_source import OdradekSource

FORMAT = OdradekSource.name()


def register(session: SparkSession) -> None:
    """For this session; a second time does no harm."""
    session.dataSource.register(OdradekSource)
