"""``odradek dump-log``: print what is in the files of a log; all else is the dump's own."""

from __future__ import annotations

import argparse


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    # With no sign that begins an option, all of them are left to the dump's own parser.
    parser = commands.add_parser(
        "dump-log",
        help="print what is in the files of a log, and find what is damaged",
        add_help=False,
        prefix_chars="\0",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from odradek.storage.dump.command import main

    return main(arguments.arguments, program="odradek dump-log")
