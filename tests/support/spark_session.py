"""A Spark session for tests, started once, and short ways to read with it.

Tests need Java; they are skipped where there is none, as those of ZooKeeper are.

Owner: the test session.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.source.java import provide_java
from odradek.spark_jobs.source.register import register
from tests.support.scans import rows_of

#: Small data on few cores: what starts soonest is best.  Spark's classes are believed unverified,
#: which saves a sixth of the time that a JVM takes to start.
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.task.maxFailures": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
}
#: Compiling queries takes longer than they do on data that is small.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
#: As it is if nobody says otherwise.
COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
PRELOADED = Path(__file__).with_name("preloaded")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    need_java()
    session = new_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def need_java() -> None:
    try:
        provide_java(dict(os.environ))
    except ScanFailed as missing:
        pytest.skip(str(missing))


def new_session(folder: Path, *, master: str = "local[2]") -> SparkSession:
    """With the source registered; what Spark leaves on the disk goes into ``folder``."""
    provide_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else it is what the path has
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"  # a client of S3 may look for it elsewhere
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = dict.fromkeys([str(PRELOADED), *filter(None, others)])  # an empty one is where we are
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    builder = SparkSession.builder.master(master).appName("tests")
    folders = {"spark.local.dir": f"{folder}/local", "spark.sql.warehouse.dir": f"{folder}/tables"}
    for name, value in {**SETTINGS, **INTERPRETED, **folders}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    register(session)
    return session


@contextmanager
def compiled(session: SparkSession) -> Iterator[None]:
    """Queries are compiled for once."""
    for name, value in COMPILED.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in INTERPRETED.items():
            session.conf.set(name, value)


def table(session: SparkSession, path: Path | str, **options: str) -> DataFrame:
    return session.read.format("odradek").options(**options).load(str(path))


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Timestamps in milliseconds; not in any order but that within a partition."""
    return [row for batch in frame.toArrow().to_batches() for row in rows_of(batch)]
