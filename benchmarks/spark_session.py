"""The Spark session of the benchmarks: two cores, with our source registered."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from odradek.spark_jobs.source.java import provide_java
from odradek.spark_jobs.source.register import register


def create_two_core_session() -> SparkSession:
    provide_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Every Python that the JVM starts imports sitecustomize from this directory.
    unreaped_children = str(Path(__file__).parent / "unreaped_children")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [unreaped_children, os.environ.get("PYTHONPATH", "")]
    )
    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    for name, value in {
        "spark.driver.memory": "3g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    return session
