"""The Spark session of a job, and one clear line if there cannot be one.

Owner: the driver's only thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.source.py_files import bring_to_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALL = "Spark is missing: pip install 'odradek[spark]'"

#: Times in reports are the same wherever a job runs.
_ALWAYS = {"spark.sql.session.timeZone": "UTC"}
#: How Spark keeps quiet: it prints a page before it has read its own settings, if no file tells it.
_LOGGING = Path(__file__).with_name("log4j2.properties")
#: What spark-submit tells a program that it starts.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


@contextmanager
def spark_session(name: str, master: str | None) -> Iterator[SparkSession]:
    """With the source registered.  One that is there already is used, and left as it is."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise ScanFailed(INSTALL) from missing
    present = SparkSession.getActiveSession()
    session = present or _started(name, master)
    try:
        with TemporaryDirectory() as folder:
            if present is None and _SUBMITTED not in os.environ:
                bring_to_workers(session, Path(folder))
            _register(session)
            yield session
    finally:
        if present is None:
            session.stop()


def _started(name: str, master: str | None) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    from odradek.spark_jobs.source.java import provide_java

    provide_java()
    builder = SparkSession.builder.appName(f"odradek {name}")
    for setting, value in _settings().items():
        builder = builder.config(setting, value)
    if master is not None:
        builder = builder.master(master)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as failure:
        raise ScanFailed(f"Spark did not start: {str(failure).splitlines()[0]}") from failure


def _settings() -> dict[str, str]:
    if _SUBMITTED in os.environ:  # whoever uses spark-submit has said what they want
        return _ALWAYS
    # On PATH there may be a Python without our packages, for workers on this machine.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return {
        **_ALWAYS,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        # Of one machine; the 200 of a cluster take longer than the work, where that is little.
        "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
    }


def _register(session: SparkSession) -> None:
    from odradek.spark_jobs.source.register import register

    register(session)
