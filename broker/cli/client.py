"""What every command that is a client shares: how it reaches a cluster, through confluent-kafka.

That library comes with the extra ``cli`` and takes a moment to load, so it is imported by what is
called here and not before.  What it complains about on its own, retries and lost connections, is
not shown: a command ends with one line.
"""

from __future__ import annotations

import argparse
import logging
import socket
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from odradek.broker.cli.assignments import assignment, by_name
from odradek.broker.cli.failed import CommandFailed

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

BOOTSTRAP = "127.0.0.1:9092"
CLIENT_ID = "odradek-cli"
TIMEOUT_S = 15.0

Run = Callable[[argparse.Namespace], int]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of every command that is a client."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--bootstrap",
        "--bootstrap-server",  # as Kafka's tools have it
        metavar="HOST:PORT[,...]",
        default=BOOTSTRAP,
        help="brokers to ask first (%(default)s)",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=TIMEOUT_S,
        help="how long the cluster may take for each answer (%(default)s)",
    )
    group.add_argument(
        "--property",
        metavar="NAME=VALUE",
        type=assignment,
        action="append",
        default=[],
        help="a setting of librdkafka, such as security.protocol=SSL; repeatable",
    )


def seconds(written: str, *, at_most: float = 3600) -> float:
    """As the type of an argument."""
    try:
        number = float(written)
    except ValueError:
        number = 0
    if not 0.001 <= number <= at_most:
        raise argparse.ArgumentTypeError(
            f"{written!r} is not a number of seconds, up to {at_most:.0f}"
        )
    return number


def client_command(run: Run) -> Run:
    """``run`` with what a client needs seen to, and its failures told in one line."""

    def run_as_client(arguments: argparse.Namespace) -> int:
        try:
            from confluent_kafka import KafkaException
        except ImportError as missing:
            raise CommandFailed(
                f"this command needs {missing.name}: pip install 'odradek[cli]'"
            ) from missing
        _check_reachable(arguments.bootstrap, timeout_s=arguments.timeout)
        try:
            return run(arguments)
        except KafkaException as refused:
            raise CommandFailed(reason(refused.args[0])) from refused
        except (ValueError, OverflowError) as refused:
            # What the library does not even send: a number out of range, a name that is empty.
            raise CommandFailed(str(refused)) from refused

    return run_as_client


def settings(arguments: argparse.Namespace, **own: object) -> dict[str, Any]:
    """Of a client; what the user gave as a property counts."""
    named = {name.replace("_", "."): value for name, value in own.items()}
    return {
        "bootstrap.servers": arguments.bootstrap,
        "client.id": CLIENT_ID,
        "logger": _silent(),
        **named,
        **by_name(arguments.property),
    }


def admin(arguments: argparse.Namespace) -> AdminClient:
    """To be kept until what was asked of it is answered: with it goes the connection."""
    from confluent_kafka.admin import AdminClient

    own = settings(arguments)
    with_logger = own.pop("logger")
    return AdminClient(own, logger=with_logger)


def deadlines(arguments: argparse.Namespace) -> dict[str, float]:
    """For what changes something: how long the change may take, and how long the answer."""
    return {"operation_timeout": arguments.timeout, "request_timeout": arguments.timeout}


def outcome(name: str, future: Future[Any]) -> Any:
    """What was asked about ``name``; raises CommandFailed."""
    from confluent_kafka import KafkaException

    try:
        return future.result()
    except KafkaException as refused:
        raise CommandFailed(f"{name}: {reason(refused.args[0])}") from refused


def settle(
    futures: Mapping[str, Future[Any]], *, done: str, forgiven: frozenset[str] = frozenset()
) -> int:
    """Tell of each what became of it; the exit status.  ``forgiven`` are names of errors."""
    from confluent_kafka import KafkaException

    status = 0
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as refused:
            error = refused.args[0]
            if error.name() in forgiven:
                continue
            print(f"odradek: {name}: {reason(error)}", file=sys.stderr)
            status = 1
        else:
            print(f"{name} {done}")
    return status


def reason(error: KafkaError) -> str:
    return f"{error.name().lstrip('_')}: {error.str()}"


def _check_reachable(bootstrap: str, *, timeout_s: float) -> None:
    """A client would go on trying for long, and then could not say what was wrong."""
    addresses = bootstrap.split(",")
    reasons = []
    for address in addresses:
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit():
            raise CommandFailed(f"--bootstrap {address}: must be host:port")
        try:
            at = (host.strip("[]"), int(port))
            socket.create_connection(at, timeout=timeout_s / len(addresses)).close()
        except (OSError, OverflowError) as failure:
            reasons.append(f"{address}: {getattr(failure, 'strerror', None) or failure}")
        else:
            return
    raise CommandFailed("no broker answers at " + ", ".join(reasons))


def _silent() -> logging.Logger:
    logger = logging.getLogger("odradek.librdkafka")
    logger.setLevel(logging.CRITICAL + 1)
    return logger
