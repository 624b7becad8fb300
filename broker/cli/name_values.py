"""NAME=VALUE, as settings and headers are written on the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NameValue:
    """What follows the first ``=`` is the text, which may be empty."""

    name: str
    value: str


def parse_name_value(argument: str) -> NameValue:
    """As the type of an argument."""
    name, sign, text = argument.partition("=")
    if not sign or not name.strip():
        raise argparse.ArgumentTypeError(f"{argument!r} is not NAME=VALUE")
    return NameValue(name.strip(), text)


def to_dict(pairs: list[NameValue]) -> dict[str, str]:
    """Of two for the same name the later counts."""
    return {each.name: each.value for each in pairs}
