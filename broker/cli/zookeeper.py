"""``odradek zookeeper``: run a ZooKeeper, for a cluster of brokers; all else is its own."""

from __future__ import annotations

import argparse


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    # With no sign that begins an option, all of them are left to the server's own parser.
    parser = commands.add_parser(
        "zookeeper",
        help="run a ZooKeeper from the jars in PySpark's wheel; needs Java",
        add_help=False,
        prefix_chars="\0",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from odradek.controller.zookeeper_server import main

    return main(arguments.arguments, program="odradek zookeeper")
