"""``odradek``: which command is meant, and what becomes of its failures?

    exit status 0   done
                1   it failed; one line on standard error says why
                2   the command makes no sense
                3   it is done, and found that something is not as it should be
              130   interrupted from the keyboard
              141   whoever read the output has gone, as with ``| head``

A command's module is imported whatever the command, and so must not import what is heavy or may be
missing before it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from odradek.broker.cli import (
    configs,
    consume,
    dump_log,
    leaders,
    produce,
    scan,
    serve,
    spark,
    topics,
    version,
    zookeeper,
)
from odradek.broker.cli.clusters import command as clusters
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.groups import command as groups
from odradek.broker.cli.reassign import command as reassign
from odradek.broker.cli.transactions import command as transactions

COMMANDS = (
    *(serve, topics, configs, groups, transactions, produce, consume),
    *(clusters, reassign, leaders),
    *(scan, spark, dump_log, zookeeper, version),
)
FAILED = 1
INTERRUPTED, BROKEN_PIPE = 128 + 2, 128 + 13  # what a shell says of SIGINT and SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parsed = _parse_arguments(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
    except CommandFailed as error:
        print(f"odradek: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # What is still buffered would fail again when the interpreter flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _build_parser()
    parsed, extra = parser.parse_known_args(arguments)
    takes_values = hasattr(parsed, "values") and not any(each.startswith("-") for each in extra)
    if takes_values:
        parsed.values += extra  # argparse gives nobody the values that stand behind an option
    elif extra:
        parser.error(f"unrecognized arguments: {' '.join(extra)}")
    return parsed


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek",
        description="A Kafka-compatible broker in pure Python, and what one needs beside it.",
        epilog="`odradek COMMAND --help` tells more.  All but serve, cluster, scan, spark, "
        "dump-log, zookeeper and version are clients: they work with any Kafka at --bootstrap, "
        "127.0.0.1:9092 if it is not given, and need the extra `cli`; so is cluster status.  scan "
        "needs the extra `arrow`, spark the extra `spark`.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
