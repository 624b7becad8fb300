"""The zip for ``--py-files``: what the source and the jobs need of this package, and no more.

    odradek spark py-files odradek.zip

It holds Python alone.  The wheels that it needs (numpy, pyarrow, the codecs) are compiled, and have
to be installed where the workers run.  The same sources give the same bytes.

Owner: none.
"""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The brokers and their controller stay at home.
PACKAGES = ("config", "protocol", "spark_jobs", "storage")
_NAME = "odradek"
_LOCAL = re.compile(r"local(\[.*\])?")


def write_py_files(to: Path) -> int:
    """How many files went into it."""
    package = files(_NAME)
    sources = {f"{_NAME}/__init__.py": package / "__init__.py"}
    for name in PACKAGES:
        sources |= _sources(package / name, f"{_NAME}/{name}")
    with ZipFile(to, "w", ZIP_DEFLATED) as archive:
        for name in sorted(sources):
            archive.writestr(ZipInfo(name), sources[name].read_bytes(), ZIP_DEFLATED)
    return len(sources)


def bring_to_workers(session: SparkSession, folder: Path) -> None:
    """Unless they are of this machine, and import what the driver does.

    Before the source is registered, since Spark remembers of it which files there were by then.
    ``folder`` is to stay as long as the session: workers that start later ask for it, too.
    """
    if not _LOCAL.fullmatch(session.sparkContext.master or "local"):
        write_py_files(folder / "odradek.zip")
        session.sparkContext.addPyFile(str(folder / "odradek.zip"))


def _sources(folder: Traversable, name: str) -> dict[str, Traversable]:
    found: dict[str, Traversable] = {}
    for each in folder.iterdir():
        path = f"{name}/{each.name}"
        if each.is_dir():
            found |= _sources(each, path)
        elif each.name.endswith(".py"):
            found[path] = each
    return found
