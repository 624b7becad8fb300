"""What tests/spark_jobs/source/test_cluster.py submits: prints JSON of what the workers read.

Nothing of the tests can be imported where it runs.
"""

import json
import os
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odradek.spark_jobs.source.failures import one_line
from odradek.spark_jobs.source.register import register


def where(_: int) -> tuple[str, str]:
    """In a worker: the directory of its executor, and where it has the code from."""
    import odradek

    return os.getcwd(), str(odradek.__file__)


def tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")


def main() -> None:
    session = SparkSession.builder.getOrCreate()
    register(session)
    reader = session.read.format("odradek").option("path", sys.argv[1])
    frame = reader.option("maxSplitBytes", "300").option("columns", "offset")
    offsets = [row.offset for row in frame.option("topics", "orders").load().collect()]
    places = session.sparkContext.parallelize(range(40), 40).map(where).collect()
    told = {
        "offsets": offsets,
        "executors": sorted({place for place, _ in places}),
        "modules": sorted({module for _, module in places}),
    }
    tell(told)
    try:
        frame.option("topics", "packed").load().collect()
    except PySparkException as failure:
        tell({"line": one_line(failure)})
    session.stop()


if __name__ == "__main__":
    main()
