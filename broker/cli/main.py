"""``odradek``: parses the command line, runs the command and returns its exit code.

    exit code   0   success
                1   the command failed; one line on standard error says why
                2   invalid command line
                3   the command ran, and found a problem in the cluster
              130   interrupted from the keyboard
              141   the reader of standard output has gone, as with ``| head``

The modules of all commands are imported for every command.  A command's module therefore imports
slow or optional packages only when the command runs.
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
INTERRUPTED, BROKEN_PIPE = 128 + 2, 128 + 13  # the exit codes of a shell for SIGINT and SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    parsed = _parse_arguments(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
    except CommandFailed as error:
        print(f"odradek: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # Without this, the interpreter's flush at exit would fail again on the buffered output.
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
        parsed.values += extra  # argparse does not assign positional values after an option
    elif extra:
        parser.error(f"unrecognized arguments: {' '.join(extra)}")
    return parsed


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek",
        description="A Kafka-compatible broker in pure Python, with tools for Kafka clusters.",
        epilog="`odradek COMMAND --help` shows the options of a command.  All commands but serve, "
        "cluster start, scan, spark, dump-log, zookeeper and version are clients: they work with "
        "any Kafka cluster at --bootstrap (127.0.0.1:9092) and need the extra `cli`.  scan needs "
        "the extra `arrow`, spark the extra `spark`.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
