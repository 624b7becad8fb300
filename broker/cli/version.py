"""``odradek version``: print the versions of Odradek and of Python."""

from __future__ import annotations

import argparse
import platform

import odradek


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "version",
        help="print the version",
        description="Print the versions of Odradek and of Python.",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    print(f"odradek {odradek.__version__} on Python {platform.python_version()}")
    return 0
