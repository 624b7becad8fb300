"""``odradek transactions find-hanging`` and ``abort``."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.cli import client, direct, tables
from odradek.broker.cli.examples import examples
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.groups.scope import SYNTAX, Scope, places, scope
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.transactions.lookup import Cluster, verb

if TYPE_CHECKING:
    from odradek.broker.cli.transactions.lookup import Producer

Commands = argparse._SubParsersAction  # the only name that argparse has for it

COLUMNS = (
    *("topic", "partition", "producer", "epoch", "coordinator_epoch", "start_offset"),
    *("last_ms", "minutes"),
)
#: Kafka's, and ours, for transaction.max.timeout.ms.
LONGEST_MINUTES = 15
MINUTE_MS = 60_000
MARKERS_VERSION = 1
#: Of whom no coordinator has written a marker yet: not above any that could.
FIRST_COORDINATOR_EPOCH = 0


def add_to(verbs: Commands[argparse.ArgumentParser]) -> None:
    _add_find(verbs)
    _add_abort(verbs)


def _add_find(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "find-hanging",
        help="find transactions that nobody will end",
        description="Find transactions that are open in a partition, have written nothing for "
        "longer than any may last, and are not known to a coordinator: nobody will end them, and "
        "consumers that read committed stop before them.",
        **examples(
            "odradek transactions find-hanging",
            "odradek transactions find-hanging --topic orders:2 --max-transaction-timeout 60",
        ),
    )
    parser.add_argument(
        "--topic",
        dest="scopes",
        metavar=SYNTAX,
        type=scope,
        action="append",
        default=[],
        help="only in this topic, or these partitions of it; repeatable",
    )
    parser.add_argument(
        "--broker",
        "--broker-id",  # as Kafka's tool has it
        metavar="ID",
        type=int,
        help="only what this broker leads",
    )
    parser.add_argument(
        "--max-transaction-timeout",
        metavar="MINUTES",
        type=int,
        default=LONGEST_MINUTES,
        help="how long a transaction may last: transaction.max.timeout.ms (%(default)s)",
    )
    tables.add_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=verb(find_hanging))


def _add_abort(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "abort",
        help="abort a transaction in one partition",
        description="Write a marker into the log of a partition that aborts a transaction there, "
        "without its coordinator: for one that hangs, as find-hanging tells.  A transaction that "
        "does not hang is torn by it: what it has written there is aborted, whatever becomes of "
        "the rest.",
        **examples(
            "odradek transactions abort orders:2 --start-offset 4711",
            "odradek transactions abort orders:2 --producer-id 7 --producer-epoch 0 "
            "--coordinator-epoch 0",
        ),
    )
    parser.add_argument("scope", metavar="TOPIC:N", type=scope)
    parser.add_argument(
        "--start-offset", metavar="OFFSET", type=int, help="where the transaction begins"
    )
    others = parser.add_argument_group("or, for brokers before Kafka 3.0, all of these")
    others.add_argument("--producer-id", metavar="ID", type=int)
    others.add_argument("--producer-epoch", metavar="EPOCH", type=int)
    others.add_argument("--coordinator-epoch", metavar="EPOCH", type=int)
    client.add_options(parser)
    parser.set_defaults(run=verb(abort))


def start_offset(producer: Producer) -> int | None:
    """Of the transaction that it has open."""
    return None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset


class Open(NamedTuple):
    """A transaction, in one of its partitions."""

    place: Place
    producer: Producer


async def find_hanging(arguments: argparse.Namespace, asked: Cluster) -> int:
    now_ms = int(time.time() * 1000)
    longest_ms = arguments.max_transaction_timeout * MINUTE_MS
    failures: list[CommandFailed] = []
    found = await asked.producers(_searched(arguments, asked), tell=failures.append)
    late = [
        Open(place, producer)
        for place, producers in found.items()
        for producer in producers
        if start_offset(producer) is not None and now_ms - producer.last_timestamp > longest_ms
    ]
    expected = await _expected(asked, late)
    rows = [
        (
            *place,
            *(producer.producer_id, producer.producer_epoch, producer.coordinator_epoch),
            *(producer.current_txn_start_offset, producer.last_timestamp),
            (now_ms - producer.last_timestamp) // MINUTE_MS,
        )
        for place, producer in late
        if (place, producer.producer_id) not in expected
    ]
    for failure in failures:
        print(f"odradek: not searched: {failure}", file=sys.stderr)
    tables.show(COLUMNS, rows, title="Hanging transactions", as_json=arguments.json)
    return 1 if failures else 0


def _searched(arguments: argparse.Namespace, asked: Cluster) -> list[Place]:
    if arguments.broker is not None:
        asked.check_broker(arguments.broker)
    meant = asked.places()
    if arguments.scopes:
        meant = places(client.admin(arguments), arguments.scopes, arguments.timeout)
    if arguments.broker is None:
        return meant
    return [place for place in meant if asked.is_led_by(arguments.broker, place)]


async def _expected(asked: Cluster, late: list[Open]) -> set[tuple[Place, int]]:
    """Partitions and producers whose coordinator has still to write a marker, or soon may."""
    from odradek.protocol.api.list_transactions import ListTransactionsRequest

    producers = sorted({each.producer.producer_id for each in late})
    if not producers:
        return set()
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=producers)
    names = [listing.transactional_id for listing, _ in await asked.listed(request)]
    return {
        (Place(topic.topic, number), transaction.producer_id)
        for transaction, _ in (await asked.described(names)).values()
        if transaction is not None
        for topic in transaction.topics
        for number in topic.partitions
    }


async def abort(arguments: argparse.Namespace, asked: Cluster) -> int:
    from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest

    place = _only(arguments.scope)
    producer, epoch, coordinator_epoch = await _meant(arguments, asked, place)
    marker = WriteTxnMarkersRequest.Marker(
        producer_id=producer,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[
            WriteTxnMarkersRequest.Marker.Topic(
                name=place.topic, partition_indexes=[place.partition]
            )
        ],
        coordinator_epoch=max(coordinator_epoch, FIRST_COORDINATOR_EPOCH),
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = await asked.ask_broker(asked.leader(place), request, version=MARKERS_VERSION)
    code = answer.markers[0].topics[0].partitions[0].error_code
    if code:
        raise CommandFailed(f"{place}: {direct.reason(code)}")
    print(f"{place}: transaction of producer {producer} aborted")
    return 0


def _only(meant: Scope) -> Place:
    if len(meant.partitions) != 1:
        raise CommandFailed(f"{meant.topic}: name one partition, as {meant.topic}:0")
    return Place(meant.topic, meant.partitions[0])


async def _meant(
    arguments: argparse.Namespace, asked: Cluster, place: Place
) -> tuple[int, int, int]:
    """Id and epoch of the producer, and epoch of the coordinator that last ended one of its."""
    named = (arguments.producer_id, arguments.producer_epoch, arguments.coordinator_epoch)
    if (arguments.start_offset is None) == (None in named):
        raise CommandFailed(
            "give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch"
        )
    if arguments.start_offset is None:
        return named
    for producer in (await asked.producers([place]))[place]:
        if start_offset(producer) == arguments.start_offset:
            return producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
    raise CommandFailed(f"{place}: no open transaction begins at {arguments.start_offset}")
