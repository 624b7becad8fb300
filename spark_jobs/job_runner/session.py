"""The Spark session of a job, or an error of one line if it cannot be created.

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

#: Times in reports do not depend on the machine.
_REQUIRED_SETTINGS = {"spark.sql.session.timeZone": "UTC"}
#: Without such a file Spark prints a page of log lines before it reads its own settings.
_LOG4J_CONFIG = Path(__file__).with_name("log4j2.properties")
#: Environment variable that spark-submit sets for the program that it starts.
_SPARK_SUBMIT_VARIABLE = "PYSPARK_GATEWAY_PORT"


@contextmanager
def spark_session(name: str, master: str | None) -> Iterator[SparkSession]:
    """Register the source.  An active session is used, and not stopped."""
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
    if _SPARK_SUBMIT_VARIABLE in os.environ:  # the user configures Spark through spark-submit
        return _REQUIRED_SETTINGS
    # For workers on this machine: the Python on PATH may not have our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return {
        **_REQUIRED_SETTINGS,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J_CONFIG.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        # For one machine: with the default of 200, small jobs spend most of the time on tasks.
        "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
    }


def _register_source(session: SparkSession) -> None:
    from odradek.spark_jobs.source.register import register

    register(session)
