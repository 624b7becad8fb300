"""The Spark session of a job, and one clear line if there cannot be one.

Owner: the driver's only thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from odradek.spark_jobs.scan.damage import ScanFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALL = "Spark is missing: pip install 'odradek[spark]'"

_SETTINGS = {
    "spark.log.level": "ERROR",
    # Times in reports are the same wherever a job runs.
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}


@contextmanager
def spark_session(name: str, master: str | None) -> Iterator[SparkSession]:
    """With the source registered.  One that is there already is used, and left as it is."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise ScanFailed(INSTALL) from missing
    present = SparkSession.getActiveSession()
    session = present or _started(name, master)
    _register(session)
    try:
        yield session
    finally:
        if present is None:
            session.stop()


def _started(name: str, master: str | None) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    from odradek.spark_jobs.source.java import provide_java

    provide_java()
    if master is None or master.startswith("local"):
        # The workers run here; on PATH there may be a Python without our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"odradek {name}")
    for setting, value in _SETTINGS.items():
        builder = builder.config(setting, value)
    builder = builder.config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    if master is not None:
        builder = builder.master(master)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as failure:
        raise ScanFailed(f"Spark did not start: {str(failure).splitlines()[0]}") from failure


def _register(session: SparkSession) -> None:
    from odradek.spark_jobs.source.register import register

    register(session)
