"""Extract the relevant line from a Spark error.

An error in a worker arrives as a Java exception that quotes the Python traceback, a page long, with
its own escaping.  The message of ScanFailed is one line that says everything.

Owner: none.
"""

from __future__ import annotations

import re

from odradek.spark_jobs.scan.damage import ScanFailed

_SCAN_FAILED = re.compile(rf"\b{ScanFailed.__name__}: (.+)")
_MODULE_NOT_FOUND = re.compile(r"\bModuleNotFoundError: No module named '([\w.]+)'")


def summarize_error(error: BaseException) -> str | None:
    """Return the line that explains the error, or None if it is not one of ours."""
    text = str(error)
    if scan_failed := _SCAN_FAILED.search(text):
        return scan_failed[1].strip()
    if missing_module := _MODULE_NOT_FOUND.search(text):
        name = missing_module[1].split(".")[0]
        if name == "odradek":
            return "a worker's Python has no odradek: install it there, or use --py-files"
        return f"a worker's Python has no {name}: install 'odradek[spark]' there"
    return None
