"""Examples at the end of a command's help, one on each line."""

from __future__ import annotations

import argparse
from typing import TypedDict


class HelpOptions(TypedDict):
    """The keyword arguments of ``add_parser`` that add the examples."""

    epilog: str
    formatter_class: type[argparse.HelpFormatter]


class _ExamplesFormatter(argparse.HelpFormatter):
    """Wraps the description as usual, but keeps the lines of a text that starts with Examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("Examples"):
            return text
        return super()._fill_text(text, width, indent)


def examples(*commands: str) -> HelpOptions:
    text = "\n".join(["Examples:", *(f"  {command}" for command in commands)])
    return {"epilog": text, "formatter_class": _ExamplesFormatter}
