"""Where is Java?  Spark runs on it, and gives up without saying where it has looked.

JAVA_HOME is taken at its word; then the path; then where packages of Linux and macOS put it.  The
file ``release`` beside it tells its version, so that nothing has to be run.

Owner: none.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from odradek.spark_jobs.scan.damage import ScanFailed

#: What Spark 4 was compiled for.
OLDEST = 17
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def provide_java(environment: MutableMapping[str, str] = os.environ) -> Path:
    """The home of one that Spark runs on; JAVA_HOME is set to it.  ScanFailed if there is none."""
    told = environment.get("JAVA_HOME")
    if told:
        if not _program(Path(told)).is_file():
            raise ScanFailed(f"JAVA_HOME is {told}, and there is no bin/java in it")
        return _checked(Path(told))
    homes = list(_homes(environment.get("PATH", "")))
    if not homes:
        raise ScanFailed(
            f"Spark needs Java {OLDEST} or newer, and there is none on the path or in the usual "
            "places: install one, or set JAVA_HOME"
        )
    home = next((home for home in homes if _is_new_enough(home)), homes[0])
    environment["JAVA_HOME"] = str(_checked(home))
    return home


def _homes(path: str) -> Iterator[Path]:
    found = shutil.which("java", path=path)
    if found:
        yield Path(found).resolve().parents[1]
    for pattern in USUAL_PLACES:
        homes = Path("/").glob(pattern.lstrip("/"))
        yield from sorted(home for home in homes if _program(home).is_file())


def _program(home: Path) -> Path:
    return home / "bin" / "java"


def _checked(home: Path) -> Path:
    if not _is_new_enough(home):
        raise ScanFailed(
            f"{_program(home)} is Java {_version(home)}, and Spark needs {OLDEST} or newer: "
            "set JAVA_HOME to one"
        )
    return home


def _is_new_enough(home: Path) -> bool:
    version = _version(home)
    return version is None or version >= OLDEST


def _version(home: Path) -> int | None:
    """None if it does not say: Spark will find out."""
    try:
        release = (home / "release").read_text()
    except OSError:
        return None
    found = _VERSION.search(release)
    return int(found[1]) if found else None
