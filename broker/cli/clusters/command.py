"""The verbs of ``odradek cluster``; without a verb it starts a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from odradek.broker.cli.clusters import status
from odradek.broker.cli.examples import examples

Commands = argparse._SubParsersAction  # the only name that argparse has for it

DESCRIPTION = (
    "Run a ZooKeeper server and brokers on this machine until SIGTERM or SIGINT, and show their "
    "states.  The command prints `Ready at HOST:PORT,...` when all brokers serve clients.  One "
    "directory has their data and log files; the next start uses the same data.  Needs Java, and "
    "the extra `cluster`."
)
DEFAULTS = {
    "brokers": 3,
    "data_dir": Path("odradek-cluster"),
    "port": 9092,
    "zookeeper_port": 2181,
    "override": [],
    "ready_file": None,
}


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "cluster",
        help="run a cluster on this machine, or show the status of a cluster",
        description=f"{DESCRIPTION}  `status` shows the status of any cluster.",
        **examples(
            "odradek cluster --brokers 3",
            "odradek cluster status --bootstrap 127.0.0.1:9092",
        ),
    )
    _add_options(parser)
    parser.set_defaults(run=_start, **DEFAULTS)
    verbs = parser.add_subparsers(title="what to do", metavar="VERB")
    start_parser = verbs.add_parser(
        "start",
        help="run a cluster (the default)",
        description=DESCRIPTION,
        **examples(
            "odradek cluster start --brokers 3",
            "odradek cluster start --brokers 5 --port 0 --override num.partitions=3",
        ),
    )
    _add_options(start_parser)
    start_parser.set_defaults(run=_start)
    status.add_to(verbs)


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add options without defaults: a verb's defaults would override options before the verb."""
    parser.add_argument(
        "--brokers",
        metavar="N",
        type=_parse_broker_count,
        default=argparse.SUPPRESS,
        help=f"the number of brokers ({DEFAULTS['brokers']}); their ids are 0, 1 and so on",
    )
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        type=Path,
        default=argparse.SUPPRESS,
        help=f"the directory of data and log files (./{DEFAULTS['data_dir']})",
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=_parse_port,
        default=argparse.SUPPRESS,
        help=f"the port of the first broker ({DEFAULTS['port']}); the others use the next ports; "
        "0: any free ports",
    )
    parser.add_argument(
        "--zookeeper-port",
        metavar="N",
        type=_parse_port,
        default=argparse.SUPPRESS,
        help=f"the port of ZooKeeper ({DEFAULTS['zookeeper_port']}); 0: any free port",
    )
    parser.add_argument(
        "--override",
        metavar="NAME=VALUE",
        action="append",
        default=argparse.SUPPRESS,
        help="a setting of all brokers; repeatable",
    )
    parser.add_argument(
        "--ready-file",
        metavar="FILE",
        type=Path,
        default=argparse.SUPPRESS,
        help="a file that has the addresses while all brokers serve clients",
    )


def _start(arguments: argparse.Namespace) -> int:
    from odradek.broker.cli.clusters import cluster_runner

    return cluster_runner.run(arguments)


def _parse_broker_count(argument: str) -> int:
    """Parse a command-line argument."""
    if not argument.isdecimal() or not 1 <= int(argument) <= 100:
        raise argparse.ArgumentTypeError(f"{argument!r} is not a number of brokers from 1 to 100")
    return int(argument)


def _parse_port(argument: str) -> int:
    """Parse a command-line argument."""
    if not argument.isdecimal() or int(argument) > 65535:
        raise argparse.ArgumentTypeError(f"{argument!r} is not a port")
    return int(argument)
