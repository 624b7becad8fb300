"""The zip for ``--py-files``: only the parts of this package that the source and the jobs need.

    odradek spark py-files odradek.zip

It contains only Python sources.  The packages that they need (numpy, pyarrow, the codecs) are
compiled, and must be installed on the workers.  The same sources give the same bytes.

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

#: The broker and the controller are not included.
PACKAGES = ("config", "protocol", "spark_jobs", "storage")
_PACKAGE = "odradek"
_LOCAL_MASTER = re.compile(r"local(\[.*\])?")


def write_py_files(path: Path) -> int:
    """Write the zip and return its number of files."""
    package = files(_PACKAGE)
    sources = {f"{_PACKAGE}/__init__.py": package / "__init__.py"}
    for name in PACKAGES:
        sources |= _collect_sources(package / name, f"{_PACKAGE}/{name}")
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name in sorted(sources):
            archive.writestr(ZipInfo(name), sources[name].read_bytes(), ZIP_DEFLATED)
    return len(sources)


def ship_to_workers(session: SparkSession, directory: Path) -> None:
    """Ship the zip, unless the workers run on this machine and import what the driver imports.

    Call it before the source is registered, because Spark stores the list of files with the source.
    ``directory`` must exist as long as the session: workers that start later request the zip too.
    """
    if not _LOCAL_MASTER.fullmatch(session.sparkContext.master or "local"):
        write_py_files(directory / "odradek.zip")
        session.sparkContext.addPyFile(str(directory / "odradek.zip"))


def _collect_sources(directory: Traversable, name: str) -> dict[str, Traversable]:
    sources: dict[str, Traversable] = {}
    for entry in directory.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            sources |= _collect_sources(entry, path)
        elif entry.name.endswith(".py"):
            sources[path] = entry
    return sources
