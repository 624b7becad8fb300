"""The packages that a worker's Python needs: those that ``--py-files`` does not ship.

Owner: none.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from odradek.spark_jobs.scan.damage import ScanFailed

#: By module name, where the names differ.  (crcmod is the fallback for crc32c.)
DISTRIBUTION_NAMES = {"snappy": "python-snappy", "crcmod": "crc32c"}


@contextmanager
def report_missing_packages() -> Iterator[None]:
    """Raise ScanFailed, which names the package and the machine, instead of an ImportError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ScanFailed(missing_package_message(error.name or str(error))) from error


def missing_package_message(module: str) -> str:
    top = module.split(".")[0]
    return (
        f"{sys.executable} on {socket.gethostname()} lacks {DISTRIBUTION_NAMES.get(top, top)}: "
        "install 'odradek[spark]' for every worker's Python"
    )
