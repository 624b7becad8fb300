"""Parses NAME=VALUE, the form of settings and headers on the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NameValue:
    """``value`` is the text after the first ``=``; it may be empty."""

    name: str
    value: str


def parse_name_value(argument: str) -> NameValue:
    """Parse a command-line argument."""
    name, sign, text = argument.partition("=")
    if not sign or not name.strip():
        raise argparse.ArgumentTypeError(f"{argument!r} is not NAME=VALUE")
    return NameValue(name.strip(), text)


def to_dict(pairs: list[NameValue]) -> dict[str, str]:
    """If a name occurs twice, the later value wins."""
    return {each.name: each.value for each in pairs}
