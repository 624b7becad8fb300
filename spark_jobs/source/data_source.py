"""The source class of the format ``odradek``: it gives Spark the schema and the readers.

Spark pickles the class by name, so every process that runs it must be able to import it.  Spark
also instantiates it in short-lived processes, and each of them reports invalid options.

Owner: none; immutable.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from odradek.spark_jobs.source.batch_reader import BatchReader
from odradek.spark_jobs.source.source_options import default_schema, parse_source_options
from odradek.spark_jobs.source.stream_reader import StreamReader


class OdradekSource(DataSource):
    """Log directories of Odradek and of Apache Kafka."""

    @classmethod
    def name(cls) -> str:
        return "odradek"

    def schema(self) -> StructType:
        """Return the schema that the options select, if the user gives none."""
        return default_schema(self.options)

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(parse_source_options(self.options, schema))

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(parse_source_options(self.options, schema))
