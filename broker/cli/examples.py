"""Examples at the end of a command's help, each on a line of its own."""

from __future__ import annotations

import argparse
from typing import TypedDict


class HelpOptions(TypedDict):
    """What a parser is told for it."""

    epilog: str
    formatter_class: type[argparse.HelpFormatter]


class _ExamplesFormatter(argparse.HelpFormatter):
    """Wraps the description, as usual, but leaves the lines of what begins with ``Examples``."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("Examples"):
            return text
        return super()._fill_text(text, width, indent)


def examples(*commands: str) -> HelpOptions:
    text = "\n".join(["Examples:", *(f"  {command}" for command in commands)])
    return {"epilog": text, "formatter_class": _ExamplesFormatter}
