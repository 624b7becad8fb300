"""``odradek consume``: read the records of a topic, without a consumer group."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.broker.cli import client
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.record_lines import FIELDS, Headers, Record, Template, to_json
from odradek.broker.cli.starting_point import StartingPoint, StartKind, parse_starting_point

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

#: The library requires a group id, although nothing is committed and no group is joined.
GROUP_ID = "odradek-cli"
BATCH_RECORDS = 1000
POLL_TIMEOUT_S = 0.2


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offset to read a partition from, and its log end offset at the start of the command."""

    start: int
    end: int


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "consume",
        help="consume records",
        description="Print the records of a topic, and wait for new records until interrupted.",
        **examples(
            "odradek consume orders --until-end --json",
            "odradek consume orders --from -10 --format '{partition}:{offset} {key}={value}'",
        ),
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        type=parse_starting_point,
        default="beginning",
        help="beginning (the default), end, an offset, -N for the last N records of each "
        "partition, a time such as 2026-11-16T12:00:00, or @MILLISECONDS since 1970",
    )
    parser.add_argument(
        "--partition",
        metavar="N",
        type=int,
        action="append",
        help="read only this partition; repeatable (all partitions)",
    )
    _add_stop_options(parser)
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--format",
        metavar="TEXT",
        default="{value}",
        help=f"print each record in this format, with the fields {', '.join(FIELDS)} in braces "
        "(%(default)s)",
    )
    formats.add_argument(
        "--json",
        action="store_true",
        help="print each record as a line of JSON, which produce --json can read",
    )
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(run))


def _add_stop_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--count", metavar="N", type=_parse_count, help="stop after this many records"
    )
    parser.add_argument(
        "--until-end", action="store_true", help="stop at the log end offsets of the start"
    )
    parser.add_argument(
        "--idle",
        metavar="SECONDS",
        type=client.parse_seconds,
        help="stop after this time without a new record",
    )


def _parse_count(argument: str) -> int:
    try:
        number = int(argument)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{argument!r} is not a number of records of at least 1")
    return number


def run(arguments: argparse.Namespace) -> int:
    from confluent_kafka import Consumer

    format_record = _line_formatter(arguments)
    consumer = Consumer(
        client.settings(
            arguments,
            group_id=GROUP_ID,
            enable_auto_commit=False,
            enable_partition_eof=True,
            auto_offset_reset="earliest",
        )
    )
    try:
        ranges = _offset_ranges(consumer, arguments)
        _assign(consumer, arguments.topic, ranges)
        for batch in _batches(consumer, arguments, ranges):
            for record in batch:
                sys.stdout.buffer.write(format_record(record))
            sys.stdout.buffer.flush()
    finally:
        consumer.close()
    return 0


def _line_formatter(arguments: argparse.Namespace) -> Callable[[Record], bytes]:
    return to_json if arguments.json else Template(arguments.format).line


def _offset_ranges(consumer: Consumer, arguments: argparse.Namespace) -> dict[int, OffsetRange]:
    from confluent_kafka import TopicPartition

    topic, timeout_s = arguments.topic, arguments.timeout
    partitions = _selected_partitions(consumer, arguments)
    bounds = {
        partition: consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=timeout_s, cached=False
        )
        for partition in partitions
    }
    point: StartingPoint = arguments.start
    if point.kind is StartKind.TIMESTAMP:
        queries = [TopicPartition(topic, partition, point.number) for partition in partitions]
        results = consumer.offsets_for_times(queries, timeout=timeout_s)
        # The offset is negative if the partition has no record at or after the timestamp.
        starts = {
            each.partition: bounds[each.partition][1] if each.offset < 0 else each.offset
            for each in results
        }
    elif point.kind is StartKind.BEFORE_END:
        starts = {partition: bounds[partition][1] - point.number for partition in partitions}
    else:
        starts = dict.fromkeys(partitions, point.number)
    return {
        partition: OffsetRange(_clamp(starts[partition], low=low, high=high), high)
        for partition, (low, high) in bounds.items()
    }


def _selected_partitions(consumer: Consumer, arguments: argparse.Namespace) -> list[int]:
    topics = consumer.list_topics(arguments.topic, timeout=arguments.timeout).topics
    topic = topics[arguments.topic]
    if topic.error is not None:
        raise CommandFailed(f"{arguments.topic}: {client.format_kafka_error(topic.error)}")
    existing = sorted(topic.partitions)
    selected: list[int] = arguments.partition or existing
    missing = sorted(set(selected) - set(existing))
    if missing:
        raise CommandFailed(f"{arguments.topic} has no partition {', '.join(map(str, missing))}")
    return selected


def _clamp(offset: int, *, low: int, high: int) -> int:
    return min(max(offset, low), high)


def _assign(consumer: Consumer, topic: str, ranges: dict[int, OffsetRange]) -> None:
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition(topic, number, each.start) for number, each in ranges.items()])


def _batches(
    consumer: Consumer, arguments: argparse.Namespace, ranges: dict[int, OffsetRange]
) -> Iterator[list[Record]]:
    """Yield records until one of the stop conditions of the arguments is met."""
    unread = _RemainingRecords(ranges)
    remaining = sys.maxsize if arguments.count is None else arguments.count
    last_s = time.monotonic()
    while remaining > 0 and (unread or not arguments.until_end):
        messages = consumer.consume(min(remaining, BATCH_RECORDS), timeout=POLL_TIMEOUT_S)
        records = [_record(message) for message in messages if unread.track(message)]
        if arguments.until_end:
            records = [record for record in records if not unread.is_beyond_end(record)]
        if records:
            yield records
            remaining -= len(records)
            last_s = time.monotonic()
        elif arguments.idle is not None and time.monotonic() - last_s > arguments.idle:
            return


class _RemainingRecords:
    """The partitions that still have unread records below their log end offset of the start."""

    def __init__(self, ranges: dict[int, OffsetRange]) -> None:
        self._ends = {number: each.end for number, each in ranges.items()}
        self._partitions = {number for number, each in ranges.items() if each.start < each.end}

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def track(self, message: Message) -> bool:
        """Return True for a record, and False for the event that a partition has no more now."""
        partition, offset = message.partition(), message.offset()
        is_record = not _is_partition_eof(message)
        assert partition is not None
        assert offset is not None
        # Some offsets have no visible record, so the last offset may never arrive.
        if not is_record or offset + 1 >= self._ends[partition]:
            self._partitions.discard(partition)
        return is_record

    def is_beyond_end(self, record: Record) -> bool:
        assert record.partition is not None
        assert record.offset is not None
        return record.offset >= self._ends[record.partition]


def _is_partition_eof(message: Message) -> bool:
    """Raise CommandFailed for any other error event."""
    error = message.error()
    if error is None:
        return False
    if error.name() != "_PARTITION_EOF":
        raise CommandFailed(f"{message.topic()}: {client.format_kafka_error(error)}")
    return True


def _record(message: Message) -> Record:
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

    kind, timestamp = message.timestamp()
    return Record(
        value=message.value(),
        key=message.key(),
        headers=_headers(message),
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
    )


def _headers(message: Message) -> Headers:
    headers: Any = message.headers()  # a list of pairs, contrary to the library's type hints
    return [*headers] if headers else []
