"""``odradek dump-log``: print the contents of log files; storage/dump parses the options."""

from __future__ import annotations

import argparse


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    # No prefix character: the parser of the dump handles all options.
    parser = commands.add_parser(
        "dump-log",
        help="print the contents of log files, and find damage",
        add_help=False,
        prefix_chars="\0",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from odradek.storage.dump.command import main

    return main(arguments.arguments, program="odradek dump-log")
