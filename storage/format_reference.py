"""Copy the descriptions of file formats from module docstrings into docs/storage-format.md.

    python -m odradek.storage.format_reference docs/storage-format.md

The command replaces the text between these lines of the file:

    <!-- text of storage/paths.py -->        the module docstring without owners and invariants
    <!-- format of storage/paths.py -->      only its tables: the indented paragraphs
    <!-- end -->

The rest of the document is written by hand.  A test checks that the copies are up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

_SECTION = re.compile(
    r"(?P<begin><!-- (?P<what>text|format) of (?P<path>[a-z0-9_/]+)\.py -->\n)"
    r".*?(?P<end><!-- end -->)",
    re.DOTALL,
)
_SKIPPED_PARAGRAPHS = ("Owner:", "Invariant:")
_INDENT = "    "


def refresh(document: str) -> str:
    """Return the document with every section copied again from its module."""
    return _SECTION.sub(_replace_section, document)


def _replace_section(match: re.Match[str]) -> str:
    module = import_module("odradek." + match["path"].replace("/", "."))
    paragraphs = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    if match["what"] == "format":
        copied = [text for text in paragraphs if text.startswith(_INDENT)]
    else:
        copied = [text for text in paragraphs if not text.startswith(_SKIPPED_PARAGRAPHS)]
    return match["begin"] + "\n" + "\n\n".join(copied) + "\n\n" + match["end"]


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(refresh(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
