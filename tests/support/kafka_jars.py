"""Where are the jars of an Apache Kafka release?

Maven brings them once, with everything a broker, ZooKeeper (3.x only) and the tools need, into
``.cache/kafka/<version>`` beside the sources, or below ODRADEK_KAFKA_CACHE where that is set.

Invariant: a directory that bears a version's name is complete.  Jars arrive in a directory of
another name, renamed at the end; a lock file lets one process bring them while others wait.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KAFKA_3_9 = "3.9.1"  # the last line with ZooKeeper
KAFKA_4_1 = "4.1.1"

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]
DOWNLOAD_TIMEOUT_S = 600

# Kafka 4 brings log4j without the bridge that slf4j needs to reach it; without one it is mute.
LOGGING_BRIDGE = {KAFKA_4_1: ("org.slf4j", "slf4j-simple", "1.7.36")}


class KafkaUnavailable(Exception):
    """Apache Kafka cannot run here; the message says why."""


def kafka_jars(version: str) -> Path:
    """A directory with all jars of this release, brought now if they are not there yet."""
    if shutil.which("java") is None:
        raise KafkaUnavailable("Apache Kafka needs Java, and there is no `java` on the PATH")
    cache = cache_directory()
    jars = cache / version
    if not jars.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{version}.lock"):
            if not jars.is_dir():
                _bring(version, jars)
    return jars


def cache_directory() -> Path:
    chosen = os.environ.get("ODRADEK_KAFKA_CACHE")
    return Path(chosen) if chosen else REPOSITORY_ROOT / ".cache" / "kafka"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _bring(version: str, jars: Path) -> None:
    if shutil.which("mvn") is None:
        raise KafkaUnavailable(
            f"the jars of Kafka {version} are not cached, and there is no `mvn` on the PATH"
        )
    with tempfile.TemporaryDirectory(prefix=f"{version}-", dir=jars.parent) as scratch:
        (Path(scratch) / "pom.xml").write_text(_project(version))
        _run_maven(version, Path(scratch))
        (Path(scratch) / "jars").rename(jars)


def _run_maven(version: str, project: Path) -> None:
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies"]
    command += ["-DoutputDirectory=jars", "-DincludeScope=runtime"]
    try:
        subprocess.run(
            command,
            cwd=project,
            timeout=DOWNLOAD_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except subprocess.TimeoutExpired as error:
        reason = f"Maven did not bring Kafka {version} within {DOWNLOAD_TIMEOUT_S} s"
        raise KafkaUnavailable(reason) from error
    except subprocess.CalledProcessError as error:
        first_line = next((line for line in error.stdout.splitlines() if "ERROR" in line), "")
        reason = f"Maven could not bring Kafka {version}: {first_line or error}"
        raise KafkaUnavailable(reason) from error


def _project(version: str) -> str:
    artifacts = [
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
    ]
    if version in LOGGING_BRIDGE:
        artifacts.append(LOGGING_BRIDGE[version])
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{release}</version></dependency>"
        for group, artifact, release in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>odradek</groupId><artifactId>kafka-jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )
