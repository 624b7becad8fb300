"""``odradek produce``: produce records to a topic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from odradek.broker.cli import client
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.name_values import parse_name_value
from odradek.broker.cli.record_lines import Record, from_json

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LINGER_MS = 5
POLL_TIMEOUT_S = 0.1


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "produce",
        help="produce records",
        description="Produce records to a topic: the given values or, without values, each line of "
        "a file or of standard input.",
        **examples(
            "odradek produce orders 'two apples' --key alice",
            "odradek produce orders --file orders.txt --key-separator : --codec zstd",
        ),
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("values", nargs="*", metavar="VALUE", help="the value of a record")
    parser.add_argument("--file", metavar="FILE", type=Path, help="read lines from this file")
    _add_record_options(parser)
    _add_producer_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(run))


def _add_record_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("records")
    forms = group.add_mutually_exclusive_group()
    forms.add_argument(
        "--key-separator", metavar="TEXT", help="the part of a line before TEXT is the record's key"
    )
    forms.add_argument(
        "--json",
        action="store_true",
        help="lines are JSON, as consume --json prints it: "
        '{"key": "k", "value": "v"}; a null value is a tombstone: it deletes its key in a '
        "compacted topic",
    )
    group.add_argument("--key", metavar="TEXT", help="the key of records that have no key")
    group.add_argument(
        "--header",
        metavar="NAME=VALUE",
        type=parse_name_value,
        action="append",
        default=[],
        help="a header for every record; repeatable",
    )
    group.add_argument(
        "--partition", metavar="N", type=int, help="the partition (chosen by key, or at random)"
    )


def _add_producer_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("producer")
    group.add_argument("--codec", choices=CODECS, default="none", help="compression (%(default)s)")
    group.add_argument(
        "--acks",
        choices=("0", "1", "all"),
        default="all",
        help="the replicas that must have a record before it counts as produced: none, the "
        "leader, or all in-sync replicas (%(default)s)",
    )
    group.add_argument(
        "--idempotent",
        action="store_true",
        help="produce without duplicates and in order; needs --acks all",
    )
    group.add_argument(
        "--report", action="store_true", help="print the partition and offset of each record"
    )


def run(arguments: argparse.Namespace) -> int:
    from confluent_kafka import Producer

    if arguments.idempotent and arguments.acks != "all":
        raise CommandFailed("--idempotent needs --acks all")
    producer = Producer(
        client.settings(
            arguments,
            acks=arguments.acks,
            compression_type=arguments.codec,
            enable_idempotence=arguments.idempotent,
            linger_ms=LINGER_MS,
            # Same as the Java producer: a key has the same partition with either producer.
            partitioner="murmur2_random",
            message_timeout_ms=int(arguments.timeout * 1000),
        )
    )
    deliveries = _DeliveryReports(prints_offsets=arguments.report)
    with ExitStack() as exit_stack:
        # The records before an invalid line are still produced.
        exit_stack.callback(producer.flush)
        for record in _records(arguments, exit_stack):
            _produce(producer, arguments.topic, record, deliveries)
    deliveries.raise_first_error()
    return 0


class _DeliveryReports:
    """Counts delivered and failed records, and keeps the first error."""

    def __init__(self, *, prints_offsets: bool) -> None:
        self._prints_offsets = prints_offsets
        self._delivered = 0
        self._failed = 0
        self._first_error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed += 1
            self._first_error = self._first_error or error
            return
        self._delivered += 1
        if self._prints_offsets:
            print(message.partition(), message.offset(), sep="\t")

    def raise_first_error(self) -> None:
        """Raise CommandFailed unless all records were delivered."""
        if self._first_error is not None:
            count = self._delivered + self._failed
            raise CommandFailed(
                f"{self._failed} of {count} records were not delivered: "
                f"{client.format_kafka_error(self._first_error)}"
            )


def _produce(producer: Producer, topic: str, record: Record, deliveries: _DeliveryReports) -> None:
    # The library accepts no None: omit values that it shall choose.
    options: dict[str, Any] = {"partition": record.partition, "timestamp": record.timestamp}
    options = {name: number for name, number in options.items() if number is not None}
    while True:
        try:
            producer.produce(
                topic,
                record.value,
                record.key,
                headers=list(record.headers),
                on_delivery=deliveries,
                **options,
            )
        except BufferError:
            producer.poll(POLL_TIMEOUT_S)  # the queue of the library is full
        else:
            producer.poll(0)
            return


def _records(arguments: argparse.Namespace, exit_stack: ExitStack) -> Iterator[Record]:
    """Yield the records with the key, headers and partition of the arguments."""
    headers: list[tuple[str, bytes | None]] = [
        (each.name, each.value.encode()) for each in arguments.header
    ]
    key = None if arguments.key is None else arguments.key.encode()
    for record in _read_records(arguments, exit_stack):
        partition = arguments.partition if record.partition is None else record.partition
        yield replace(
            record,
            key=key if record.key is None else record.key,
            headers=[*record.headers, *headers],
            partition=partition,
        )


def _read_records(arguments: argparse.Namespace, exit_stack: ExitStack) -> Iterator[Record]:
    if arguments.values and arguments.file is not None:
        raise CommandFailed("give values or --file, not both")
    lines: Iterable[bytes]
    if arguments.values:
        lines = [value.encode("utf-8", "surrogateescape") for value in arguments.values]
    else:
        lines = _open_lines(arguments.file, exit_stack)
    for number, line in enumerate(lines, start=1):
        try:
            yield _parse_record(arguments, line.removesuffix(b"\n"))
        except ValueError as error:
            raise CommandFailed(f"record {number}: {error}") from error


def _parse_record(arguments: argparse.Namespace, line: bytes) -> Record:
    """Raise ValueError if the line is not a record."""
    if arguments.json:
        return from_json(line)
    if arguments.key_separator is None:
        return Record(line)
    key, separator, value = line.partition(arguments.key_separator.encode())
    if not separator:
        raise ValueError(f"the key separator {arguments.key_separator!r} is missing")
    return Record(value, key=key)


def _open_lines(path: Path | None, exit_stack: ExitStack) -> IO[bytes]:
    if path is None:
        return sys.stdin.buffer
    try:
        if not sys.stderr.isatty():
            return exit_stack.enter_context(path.open("rb"))
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        return exit_stack.enter_context(
            progress.open(path, "rb", description=path.name, console=console, transient=True)
        )
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from error
