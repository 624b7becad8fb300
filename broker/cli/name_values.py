"""NAME=VALUE, as settings and headers are written on the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assignment:
    """What follows the first ``=`` is the text, which may be empty."""

    name: str
    text: str


def assignment(written: str) -> Assignment:
    """As the type of an argument."""
    name, sign, text = written.partition("=")
    if not sign or not name.strip():
        raise argparse.ArgumentTypeError(f"{written!r} is not NAME=VALUE")
    return Assignment(name.strip(), text)


def by_name(assignments: list[Assignment]) -> dict[str, str]:
    """Of two for the same name the later counts."""
    return {each.name: each.text for each in assignments}
