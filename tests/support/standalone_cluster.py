"""A standalone cluster of Spark's own: a master and workers, from the jars in PySpark's wheel.

    with standalone_cluster(tmp_path, workers=2) as cluster:
        subprocess.run([..., "--master", cluster.url])

Each worker has one core and a directory, which gets one for each executor it has run.

Owner: the thread that started it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from odradek.spark_jobs.source.java import provide_java
from tests.support.free_ports import free_port
from tests.support.group_members import wait_until

MEMORY = "512m"
#: What starts soonest is best.
DAEMONS = {
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_LOCAL_IP": "127.0.0.1",
}
STOP_TIMEOUT_S = 30
LOG = "cluster.log"


@dataclass(frozen=True, slots=True)
class Cluster:
    url: str
    folders: tuple[Path, ...]  # of the workers

    def executors(self) -> list[int]:
        """How many each worker has run."""
        return [len(list(folder.glob("app-*/*"))) for folder in self.folders]


@contextmanager
def standalone_cluster(
    folder: Path, environment: Mapping[str, str], *, workers: int
) -> Iterator[Cluster]:
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    folders = tuple(folder / f"worker-{number}" for number in range(workers))
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    with ExitStack() as stack:
        start = _Starting(stack, folder, environment)
        master = start("master.Master", *here, "--port", str(port))
        # A worker that does not find its master waits for many seconds before it looks again.
        wait_until(lambda: _listens(port) or master.poll() is not None)
        assert master.poll() is None, (folder / LOG).read_text()
        for each in folders:
            size = ["--cores", "1", "--memory", MEMORY, "--work-dir", str(each)]
            start("worker.Worker", *here, *size, url)
        yield Cluster(url, folders)


class _Starting:
    def __init__(self, stack: ExitStack, folder: Path, environment: Mapping[str, str]) -> None:
        self._stack = stack
        self._log = stack.enter_context((folder / LOG).open("wb"))
        self._environment = {**environment, **DAEMONS}
        provide_java(self._environment)

    def __call__(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
        # A group of its own: with a worker go the executors that it has started.
        process = subprocess.Popen(
            [launcher, f"org.apache.spark.deploy.{name}", *arguments],
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self._stack.callback(_stop, process)
        return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # if it has ended by itself, and all it had started
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_TIMEOUT_S)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
