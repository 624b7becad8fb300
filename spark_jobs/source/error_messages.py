"""The line in a failure of Spark's that says what is wrong.

What fails in a worker comes back as an exception of Java's that quotes Python's traceback, in
quotes of its own, a page long.  Ours says all there is to say in one line.

Owner: none.
"""

from __future__ import annotations

import re

from odradek.spark_jobs.scan.damage import ScanFailed

_SCAN_FAILED = re.compile(rf"\b{ScanFailed.__name__}: (.+)")
_MODULE_NOT_FOUND = re.compile(r"\bModuleNotFoundError: No module named '([\w.]+)'")


def summarize_error(error: BaseException) -> str | None:
    """None if it is not ours to explain."""
    text = str(error)
    if scan_failed := _SCAN_FAILED.search(text):
        return scan_failed[1].strip()
    if missing_module := _MODULE_NOT_FOUND.search(text):
        name = missing_module[1].split(".")[0]
        if name == "odradek":
            return "a worker's Python has no odradek: install it there, or use --py-files"
        return f"a worker's Python has no {name}: install 'odradek[spark]' there"
    return None
