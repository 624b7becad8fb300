"""What a worker's Python must have: wheels that ``--py-files`` does not bring along.

Owner: none.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from odradek.spark_jobs.scan.damage import ScanFailed

#: By what is imported; the others are called as they are imported.  (crcmod is the second choice.)
DISTRIBUTION_NAMES = {"snappy": "python-snappy", "crcmod": "crc32c"}


@contextmanager
def report_missing_packages() -> Iterator[None]:
    """ScanFailed, with a line that says what is missing where, instead of an ImportError."""
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
