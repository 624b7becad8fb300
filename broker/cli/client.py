"""Options and helpers of every client command, which reach a cluster through confluent-kafka.

confluent-kafka comes with the extra ``cli`` and is slow to import, so functions import it only
when they are called.  Its log lines about retries and lost connections are suppressed: a command
that fails prints one line.
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
    """Add the options that every client command has."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--bootstrap",
        "--bootstrap-server",  # the name in Kafka's tools
        metavar="HOST:PORT[,...]",
        default=BOOTSTRAP,
        help="the brokers to connect to first (%(default)s)",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=parse_seconds,
        default=TIMEOUT_S,
        help="the timeout of each request (%(default)s)",
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
    """Parse a command-line argument."""
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
    """Wrap ``run``: check that a broker is reachable, and convert errors to CommandFailed."""

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
            # The library rejects some values before it sends: out of range, or an empty name.
            raise CommandFailed(str(error)) from error

    return run_as_client


def settings(arguments: argparse.Namespace, **defaults: object) -> dict[str, Any]:
    """Return the settings of a client; properties given by the user override ``defaults``."""
    named = {name.replace("_", "."): value for name, value in defaults.items()}
    return {
        "bootstrap.servers": arguments.bootstrap,
        "client.id": CLIENT_ID,
        "logger": _silent_logger(),
        **named,
        **to_dict(arguments.property),
    }


def create_admin_client(arguments: argparse.Namespace) -> AdminClient:
    """Keep the returned client until all its futures are done: its connections close with it."""
    from confluent_kafka.admin import AdminClient

    client_settings = settings(arguments)
    logger = client_settings.pop("logger")
    return AdminClient(client_settings, logger=logger)


def timeouts(arguments: argparse.Namespace) -> dict[str, float]:
    """Return the timeouts of a request that changes something: operation and response."""
    return {"operation_timeout": arguments.timeout, "request_timeout": arguments.timeout}


def wait_for_result(name: str, future: Future[Any]) -> Any:
    """Return the result of a request about ``name``; raises CommandFailed."""
    from confluent_kafka import KafkaException

    try:
        return future.result()
    except KafkaException as error:
        raise CommandFailed(f"{name}: {format_kafka_error(error.args[0])}") from error


def report_results(
    futures: Mapping[str, Future[Any]], *, done: str, ignored_errors: frozenset[str] = frozenset()
) -> int:
    """Print the result for each name and return the exit code.

    ``ignored_errors`` are names of errors that are neither printed nor counted as failures.
    """
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
    """Fail fast: a client would retry for long, and could then not say what was wrong."""
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
    raise CommandFailed("no broker is reachable at " + ", ".join(reasons))


def _silent_logger() -> logging.Logger:
    logger = logging.getLogger("odradek.librdkafka")
    logger.setLevel(logging.CRITICAL + 1)
    return logger
