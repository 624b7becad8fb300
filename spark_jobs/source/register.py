"""Register the format ``odradek`` in a Spark session.

    register(session)
    session.read.format("odradek").option("topics", "orders").load("/var/lib/kafka")

``--py-files`` ships the code to the workers, but does not register the format.

Owner: none.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from odradek.spark_jobs.source.data_source import OdradekSource

FORMAT = OdradekSource.name()


def register(session: SparkSession) -> None:
    """Register the format in this session; repeating it is harmless."""
    session.dataSource.register(OdradekSource)
