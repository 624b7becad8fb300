"""The zip for ``--py-files``: what the source and the jobs need of this package, and no more.

    odradek spark py-files odradek.zip

It holds Python alone.  The wheels that it needs (numpy, pyarrow, the codecs) are compiled, and have
to be installed where the workers run.  The same sources give the same bytes.

Owner: none.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

#: The brokers and their controller stay at home.
PACKAGES = ("config", "protocol", "spark_jobs", "storage")
_NAME = "odradek"


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


def _sources(folder: Traversable, name: str) -> dict[str, Traversable]:
    found: dict[str, Traversable] = {}
    for each in folder.iterdir():
        path = f"{name}/{each.name}"
        if each.is_dir():
            found |= _sources(each, path)
        elif each.name.endswith(".py"):
            found[path] = each
    return found
