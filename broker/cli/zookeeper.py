"""``odradek zookeeper``: run a ZooKeeper server for a cluster; it parses its own options."""

from __future__ import annotations

import argparse


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    # No prefix character: the parser of the server handles all options.
    parser = commands.add_parser(
        "zookeeper",
        help="run a ZooKeeper server from the jars in PySpark's wheel; needs Java",
        add_help=False,
        prefix_chars="\0",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from odradek.controller.zookeeper_server import main

    return main(arguments.arguments, program="odradek zookeeper")
