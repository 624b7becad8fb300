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
from odradek.spark_jobs.source.py_files import ship_to_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALL_HINT = "Spark is missing: pip install 'odradek[spark]'"

#: Times in reports are the same wherever a job runs.
_REQUIRED_SETTINGS = {"spark.sql.session.timeZone": "UTC"}
#: How Spark keeps quiet: it prints a page before it has read its own settings, if no file tells it.
_LOG4J_CONFIG = Path(__file__).with_name("log4j2.properties")
#: What spark-submit tells a program that it starts.
_SPARK_SUBMIT_VARIABLE = "PYSPARK_GATEWAY_PORT"


@contextmanager
def spark_session(name: str, master: str | None) -> Iterator[SparkSession]:
    """With the source registered.  One that is there already is used, and left as it is."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ScanFailed(INSTALL_HINT) from error
    active = SparkSession.getActiveSession()
    session = active or _create_session(name, master)
    try:
        with TemporaryDirectory() as folder:
            if active is None and _SPARK_SUBMIT_VARIABLE not in os.environ:
                ship_to_workers(session, Path(folder))
            _register_source(session)
            yield session
    finally:
        if active is None:
            session.stop()


def _create_session(name: str, master: str | None) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    from odradek.spark_jobs.source.java import provide_java

    provide_java()
    builder = SparkSession.builder.appName(f"odradek {name}")
    for setting, value in _spark_settings().items():
        builder = builder.config(setting, value)
    if master is not None:
        builder = builder.master(master)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise ScanFailed(f"Spark failed to start: {str(error).splitlines()[0]}") from error


def _spark_settings() -> dict[str, str]:
    if _SPARK_SUBMIT_VARIABLE in os.environ:  # whoever uses spark-submit has said what they want
        return _REQUIRED_SETTINGS
    # On PATH there may be a Python without our packages, for workers on this machine.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return {
        **_REQUIRED_SETTINGS,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J_CONFIG.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        # Of one machine; the 200 of a cluster take longer than the work, where that is little.
        "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
    }


def _register_source(session: SparkSession) -> None:
    from odradek.spark_jobs.source.register import register

    register(session)
