"""Find Java.  Spark needs it, and does not say where it has searched if it finds none.

JAVA_HOME is used as it is.  Without it, the PATH is searched, then the directories where packages
of Linux and macOS install Java.  The file ``release`` of an installation states its version, so
nothing has to be run.

Owner: none.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from odradek.spark_jobs.scan.damage import ScanFailed

#: The oldest Java that Spark 4 supports.
JAVA_VERSION_MIN = 17
JAVA_HOME_PATTERNS = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
_VERSION_PATTERN = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def provide_java(environment: MutableMapping[str, str] = os.environ) -> Path:
    """Return the home of a Java that Spark supports, and set JAVA_HOME.  Raises ScanFailed."""
    java_home = environment.get("JAVA_HOME")
    if java_home:
        if not _java_binary(Path(java_home)).is_file():
            raise ScanFailed(f"JAVA_HOME={java_home}: there is no bin/java in it")
        return _check_version(Path(java_home))
    homes = list(_find_homes(environment.get("PATH", "")))
    if not homes:
        raise ScanFailed(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, but none was found on the PATH or in "
            "the usual directories: install it or set JAVA_HOME"
        )
    home = next((home for home in homes if _is_supported(home)), homes[0])
    environment["JAVA_HOME"] = str(_check_version(home))
    return home


def _find_homes(path: str) -> Iterator[Path]:
    java_path = shutil.which("java", path=path)
    if java_path:
        yield Path(java_path).resolve().parents[1]
    for pattern in JAVA_HOME_PATTERNS:
        homes = Path("/").glob(pattern.lstrip("/"))
        yield from sorted(home for home in homes if _java_binary(home).is_file())


def _java_binary(home: Path) -> Path:
    return home / "bin" / "java"


def _check_version(home: Path) -> Path:
    if not _is_supported(home):
        raise ScanFailed(
            f"{_java_binary(home)} is Java {_version(home)}, but Spark needs "
            f"{JAVA_VERSION_MIN} or newer: set JAVA_HOME to a newer one"
        )
    return home


def _is_supported(home: Path) -> bool:
    version = _version(home)
    return version is None or version >= JAVA_VERSION_MIN


def _version(home: Path) -> int | None:
    """Return None if the version is unknown; Spark will check it."""
    try:
        release = (home / "release").read_text()
    except OSError:
        return None
    match = _VERSION_PATTERN.search(release)
    return int(match[1]) if match else None
