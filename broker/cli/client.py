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

from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.name_values import parse_name_value, to_dict

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

BOOTSTRAP = "127.0.0.1:9092"
CLIENT_ID = "odradek-cli"
TIMEOUT_S = 15.0

CommandFunction = Callable[[argparse.Namespace], int]


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
        type=parse_seconds,
        default=TIMEOUT_S,
        help="how long the cluster may take for each answer (%(default)s)",
    )
    group.add_argument(
        "--property",
        metavar="NAME=VALUE",
        type=parse_name_value,
        action="append",
        default=[],
        help="a setting of librdkafka, such as security.protocol=SSL; repeatable",
    )


def parse_seconds(argument: str, *, at_most: float = 3600) -> float:
    """As the type of an argument."""
    try:
        number = float(argument)
    except ValueError:
        number = 0
    if not 0.001 <= number <= at_most:
        raise argparse.ArgumentTypeError(
            f"{argument!r} is not a number of seconds from 0.001 to {at_most:.0f}"
        )
    return number


def client_command(run: CommandFunction) -> CommandFunction:
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
        except KafkaException as error:
            raise CommandFailed(format_kafka_error(error.args[0])) from error
        except (ValueError, OverflowError) as error:
            # What the library does not even send: a number out of range, a name that is empty.
            raise CommandFailed(str(error)) from error

    return run_as_client


def settings(arguments: argparse.Namespace, **defaults: object) -> dict[str, Any]:
    """Of a client; what the user gave as a property counts."""
    named = {name.replace("_", "."): value for name, value in defaults.items()}
    return {
        "bootstrap.servers": arguments.bootstrap,
        "client.id": CLIENT_ID,
        "logger": _silent_logger(),
        **named,
        **to_dict(arguments.property),
    }


def create_admin_client(arguments: argparse.Namespace) -> AdminClient:
    """To be kept until what was asked of it is answered: with it goes the connection."""
    from confluent_kafka.admin import AdminClient

    client_settings = settings(arguments)
    logger = client_settings.pop("logger")
    return AdminClient(client_settings, logger=logger)


def timeouts(arguments: argparse.Namespace) -> dict[str, float]:
    """For what changes something: how long the change may take, and how long the answer."""
    return {"operation_timeout": arguments.timeout, "request_timeout": arguments.timeout}


def wait_for_result(name: str, future: Future[Any]) -> Any:
    """What was asked about ``name``; raises CommandFailed."""
    from confluent_kafka import KafkaException

    try:
        return future.result()
    except KafkaException as error:
        raise CommandFailed(f"{name}: {format_kafka_error(error.args[0])}") from error


def report_results(
    futures: Mapping[str, Future[Any]], *, done: str, ignored_errors: frozenset[str] = frozenset()
) -> int:
    """Tell of each what became of it; the exit status.  ``forgiven`` are names of errors."""
    from confluent_kafka import KafkaException

    status = 0
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as exception:
            error = exception.args[0]
            if error.name() in ignored_errors:
                continue
            print(f"odradek: {name}: {format_kafka_error(error)}", file=sys.stderr)
            status = 1
        else:
            print(f"{name} {done}")
    return status


def format_kafka_error(error: KafkaError) -> str:
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
            socket_address = (host.strip("[]"), int(port))
            socket.create_connection(socket_address, timeout=timeout_s / len(addresses)).close()
        except (OSError, OverflowError) as error:
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    raise CommandFailed("no broker answers at " + ", ".join(reasons))


def _silent_logger() -> logging.Logger:
    logger = logging.getLogger("odradek.librdkafka")
    logger.setLevel(logging.CRITICAL + 1)
    return logger
