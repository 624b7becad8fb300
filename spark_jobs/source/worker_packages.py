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
PACKAGES = {"snappy": "python-snappy", "crcmod": "crc32c"}


@contextmanager
def needing_wheels() -> Iterator[None]:
    """ScanFailed, with a line that says what is missing where, instead of an ImportError."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise ScanFailed(lacking(missing.name or str(missing))) from missing


def lacking(module: str) -> str:
    top = module.split(".")[0]
    return (
        f"{sys.executable} on {socket.gethostname()} lacks {PACKAGES.get(top, top)}: "
        "every worker's Python needs what 'odradek[spark]' installs"
    )
