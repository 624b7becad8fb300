"""What Spark asks of the format ``odradek`` first: the schema, and who reads.

Spark pickles the class by name, so whoever runs it must be able to import it, and makes an object
of it in processes that live for moments: what is wrong with an option is told by each of them.

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
        """If the user names none: what the options ask for."""
        return default_schema(self.options)

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(parse_source_options(self.options, schema))

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(parse_source_options(self.options, schema))
