"""The line in a failure of Spark's that says what is wrong.

What fails in a worker comes back as an exception of Java's that quotes Python's traceback, in
quotes of its own, a page long.  Ours says all there is to say in one line.

Owner: none.
"""

from __future__ import annotations

import re

from odradek.spark_jobs.scan.damage import ScanFailed

_OURS = re.compile(rf"\b{ScanFailed.__name__}: (.+)")
_LACKING = re.compile(r"\bModuleNotFoundError: No module named '([\w.]+)'")


def one_line(failure: BaseException) -> str | None:
    """None if it is not ours to explain."""
    text = str(failure)
    if ours := _OURS.search(text):
        return ours[1].strip()
    if lacking := _LACKING.search(text):
        name = lacking[1].split(".")[0]
        if name == "odradek":
            return "a worker's Python has no odradek: install it there, or use --py-files"
        return f"a worker's Python has no {name}: it needs what 'odradek[spark]' installs"
    return None
