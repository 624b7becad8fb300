"""``odradek transactions find-hanging`` and ``abort``."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.cli import broker_connections, client, tables
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.groups.scope import SYNTAX, TopicScope, parse_scope, resolve_scopes
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.transactions.lookup import TransactionsClient, transactions_command

if TYPE_CHECKING:
    from odradek.broker.cli.transactions.lookup import ProducerState

Commands = argparse._SubParsersAction  # the only name that argparse has for it

COLUMNS = (
    *("topic", "partition", "producer", "epoch", "coordinator_epoch", "start_offset"),
    *("last_ms", "minutes"),
)
#: The default of transaction.max.timeout.ms, in Kafka and in Odradek.
DEFAULT_MAX_TIMEOUT_MINUTES = 15
MINUTE_MS = 60_000
WRITE_TXN_MARKERS_VERSION = 1
#: For a producer without any marker yet: not above the epoch of any coordinator.
FIRST_COORDINATOR_EPOCH = 0


def add_to(verbs: Commands[argparse.ArgumentParser]) -> None:
    _add_find(verbs)
    _add_abort(verbs)


def _add_find(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "find-hanging",
        help="find hanging transactions",
        description="Find transactions that are open in a partition, have no record within the "
        "maximum transaction timeout, and are unknown to their coordinator: no coordinator will "
        "end them, and they block read_committed consumers.",
        **examples(
            "odradek transactions find-hanging",
            "odradek transactions find-hanging --topic orders:2 --max-transaction-timeout 60",
        ),
    )
    parser.add_argument(
        "--topic",
        dest="scopes",
        metavar=SYNTAX,
        type=parse_scope,
        action="append",
        default=[],
        help="only in this topic, or these partitions of it; repeatable",
    )
    parser.add_argument(
        "--broker",
        "--broker-id",  # the name in Kafka's tool
        metavar="ID",
        type=int,
        help="only partitions whose leader is this broker",
    )
    parser.add_argument(
        "--max-transaction-timeout",
        metavar="MINUTES",
        type=int,
        default=DEFAULT_MAX_TIMEOUT_MINUTES,
        help="the maximum transaction timeout, transaction.max.timeout.ms (%(default)s)",
    )
    tables.add_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=transactions_command(find_hanging))


def _add_abort(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "abort",
        help="abort a transaction in one partition",
        description="Abort a transaction in one partition: write an abort marker into its log, "
        "without the transaction coordinator.  Use this for hanging transactions, as listed by "
        "find-hanging.  A transaction that does not hang loses its atomicity: its records in this "
        "partition are aborted, and its records in other partitions may still be committed.",
        **examples(
            "odradek transactions abort orders:2 --start-offset 4711",
            "odradek transactions abort orders:2 --producer-id 7 --producer-epoch 0 "
            "--coordinator-epoch 0",
        ),
    )
    parser.add_argument("scope", metavar="TOPIC:N", type=parse_scope)
    parser.add_argument(
        "--start-offset", metavar="OFFSET", type=int, help="the first offset of the transaction"
    )
    others = parser.add_argument_group("for brokers before Kafka 3.0, all of these instead")
    others.add_argument("--producer-id", metavar="ID", type=int)
    others.add_argument("--producer-epoch", metavar="EPOCH", type=int)
    others.add_argument("--coordinator-epoch", metavar="EPOCH", type=int)
    client.add_options(parser)
    parser.set_defaults(run=transactions_command(abort))


def open_transaction_start_offset(producer: ProducerState) -> int | None:
    """Return the start offset of the producer's open transaction, or None."""
    return None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset


class OpenTransaction(NamedTuple):
    """An open transaction in one of its partitions."""

    topic_partition: TopicAndPartition
    producer: ProducerState


async def find_hanging(arguments: argparse.Namespace, cluster: TransactionsClient) -> int:
    now_ms = int(time.time() * 1000)
    max_timeout_ms = arguments.max_transaction_timeout * MINUTE_MS
    errors: list[CommandFailed] = []
    producers = await cluster.describe_producers(
        _partitions_to_search(arguments, cluster), on_error=errors.append
    )
    candidates = [
        OpenTransaction(topic_partition, producer)
        for topic_partition, partition_producers in producers.items()
        for producer in partition_producers
        if open_transaction_start_offset(producer) is not None
        and now_ms - producer.last_timestamp > max_timeout_ms
    ]
    known = await _transactions_known_to_coordinators(cluster, candidates)
    rows = [
        (
            *topic_partition,
            *(producer.producer_id, producer.producer_epoch, producer.coordinator_epoch),
            *(producer.current_txn_start_offset, producer.last_timestamp),
            (now_ms - producer.last_timestamp) // MINUTE_MS,
        )
        for topic_partition, producer in candidates
        if (topic_partition, producer.producer_id) not in known
    ]
    for error in errors:
        print(f"odradek: not searched: {error}", file=sys.stderr)
    tables.show(COLUMNS, rows, title="Hanging transactions", as_json=arguments.json)
    return 1 if errors else 0


def _partitions_to_search(
    arguments: argparse.Namespace, cluster: TransactionsClient
) -> list[TopicAndPartition]:
    if arguments.broker is not None:
        cluster.check_broker(arguments.broker)
    topic_partitions = cluster.all_partitions()
    if arguments.scopes:
        topic_partitions = resolve_scopes(
            client.create_admin_client(arguments), arguments.scopes, arguments.timeout
        )
    if arguments.broker is None:
        return topic_partitions
    return [each for each in topic_partitions if cluster.is_led_by(arguments.broker, each)]


async def _transactions_known_to_coordinators(
    cluster: TransactionsClient, candidates: list[OpenTransaction]
) -> set[tuple[TopicAndPartition, int]]:
    """Return the partitions and producer ids of transactions that a coordinator will end."""
    from odradek.protocol.api.list_transactions import ListTransactionsRequest

    producers = sorted({each.producer.producer_id for each in candidates})
    if not producers:
        return set()
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=producers)
    names = [listing.transactional_id for listing, _ in await cluster.list_transactions(request)]
    return {
        (TopicAndPartition(topic.topic, number), transaction.producer_id)
        for transaction, _ in (await cluster.describe_transactions(names)).values()
        if transaction is not None
        for topic in transaction.topics
        for number in topic.partitions
    }


async def abort(arguments: argparse.Namespace, cluster: TransactionsClient) -> int:
    from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest

    partition = _single_partition(arguments.scope)
    producer, epoch, coordinator_epoch = await _producer_to_abort(arguments, cluster, partition)
    marker = WriteTxnMarkersRequest.Marker(
        producer_id=producer,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[
            WriteTxnMarkersRequest.Marker.Topic(
                name=partition.topic, partition_indexes=[partition.partition]
            )
        ],
        coordinator_epoch=max(coordinator_epoch, FIRST_COORDINATOR_EPOCH),
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    response = await cluster.send_to_broker(
        cluster.leader(partition), request, version=WRITE_TXN_MARKERS_VERSION
    )
    code = response.markers[0].topics[0].partitions[0].error_code
    if code:
        raise CommandFailed(f"{partition}: {broker_connections.format_error_code(code)}")
    print(f"{partition}: transaction of producer {producer} aborted")
    return 0


def _single_partition(topic_scope: TopicScope) -> TopicAndPartition:
    if len(topic_scope.partitions) != 1:
        raise CommandFailed(
            f"{topic_scope.topic}: give exactly one partition, such as {topic_scope.topic}:0"
        )
    return TopicAndPartition(topic_scope.topic, topic_scope.partitions[0])


async def _producer_to_abort(
    arguments: argparse.Namespace, cluster: TransactionsClient, topic_partition: TopicAndPartition
) -> tuple[int, int, int]:
    """Return the producer id and epoch, and the coordinator epoch of the producer's last marker."""
    named = (arguments.producer_id, arguments.producer_epoch, arguments.coordinator_epoch)
    if (arguments.start_offset is None) == (None in named):
        raise CommandFailed(
            "give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch"
        )
    if arguments.start_offset is None:
        return named
    for producer in (await cluster.describe_producers([topic_partition]))[topic_partition]:
        if open_transaction_start_offset(producer) == arguments.start_offset:
            return producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
    raise CommandFailed(
        f"{topic_partition}: no open transaction starts at offset {arguments.start_offset}"
    )
