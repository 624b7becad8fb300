"""The verbs of ``odradek transactions``; list, describe and describe-producers."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from odradek.broker.cli import client, tables
from odradek.broker.cli.examples import examples
from odradek.broker.cli.groups.scope import SYNTAX, parse_scope, resolve_scopes
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.transactions import hanging
from odradek.broker.cli.transactions.lookup import STATES, TransactionsClient, transactions_command

if TYPE_CHECKING:
    from odradek.broker.cli.transactions.lookup import TransactionDescription

Commands = argparse._SubParsersAction  # the only name that argparse has for it

LIST_COLUMNS = ("transactional_id", "coordinator", "producer", "state")
COLUMNS = (
    *("transactional_id", "coordinator", "producer", "epoch", "state", "timeout_ms"),
    *("begun_ms", "duration_ms", "partitions"),
)
PRODUCER_COLUMNS = (
    *("topic", "partition", "producer", "epoch", "coordinator_epoch", "last_sequence"),
    *("last_ms", "start_offset"),
)


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "transactions",
        help="list and describe transactions, find and abort hanging ones",
        description="List and describe transactional ids.  Find and abort hanging transactions, "
        "which block read_committed consumers.  Needs a listener without TLS and SASL.",
        **examples(
            "odradek transactions list --state ongoing",
            "odradek transactions find-hanging --topic orders",
        ),
    )
    verbs = parser.add_subparsers(title="what to do", metavar="VERB", required=True)
    _add_list(verbs)
    _add_describe(verbs)
    _add_describe_producers(verbs)
    hanging.add_to(verbs)


def _add_list(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "list",
        help="list transactional ids, their producers and states",
        description="List transactional ids, by name, with their coordinator, their producer id, "
        "and the state of their transaction.",
        **examples(
            "odradek transactions list",
            "odradek transactions list --state ongoing --longer-than 60000",
        ),
    )
    parser.add_argument(
        "--state",
        metavar="STATE",
        type=str.lower,
        choices=[state.lower() for state in STATES],
        action="append",
        default=[],
        help=f"only ids in this state; repeatable: {', '.join(STATES)}",
    )
    parser.add_argument(
        "--producer-id",
        metavar="ID",
        type=int,
        action="append",
        default=[],
        help="only ids with this producer id; repeatable",
    )
    parser.add_argument(
        "--longer-than",
        "--duration-filter",  # the name in Kafka's tool
        metavar="MILLISECONDS",
        type=int,
        default=-1,
        help="only ids whose transaction started longer ago than this, or that never had one; "
        "useful with --state ongoing; needs Kafka 3.8 or later",
    )
    parser.add_argument(
        "--matching",
        "--transactional-id-pattern",
        metavar="REGEX",
        help="only ids that match this RE2 expression; needs Kafka 4.1 or later",
    )
    tables.add_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=transactions_command(list_transactions))


def _add_describe(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "describe",
        help="describe transactional ids",
        description="Describe transactional ids: the producer id and epoch, the state of the "
        "transaction, its start time, and its partitions until it is complete.",
        **examples(
            "odradek transactions describe billing-1",
            "odradek transactions describe billing-1 billing-2 --json",
        ),
    )
    parser.add_argument("ids", nargs="+", metavar="TRANSACTIONAL_ID")
    tables.add_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=transactions_command(describe))


def _add_describe_producers(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "describe-producers",
        help="describe the active producers of partitions",
        description="Describe the idempotent and transactional producers that the leaders of "
        "partitions, or other replicas, have in their state: the last sequence number, and the "
        "start offset of the open transaction.",
        **examples(
            "odradek transactions describe-producers orders",
            "odradek transactions describe-producers orders:2 --broker 1",
        ),
    )
    parser.add_argument("scopes", nargs="+", metavar=SYNTAX, type=parse_scope)
    parser.add_argument("--broker", metavar="ID", type=int, help="ask this replica, not the leader")
    tables.add_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=transactions_command(describe_producers))


async def list_transactions(arguments: argparse.Namespace, cluster: TransactionsClient) -> int:
    from odradek.protocol.api.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(
        state_filters=[state for state in STATES if state.lower() in arguments.state],
        producer_id_filters=arguments.producer_id,
        duration_filter=max(arguments.longer_than, -1),
        transactional_id_pattern=arguments.matching,
    )
    rows = [
        (each.transactional_id, coordinator, each.producer_id, each.transaction_state)
        for each, coordinator in await cluster.list_transactions(request)
    ]
    tables.show(LIST_COLUMNS, rows, title="Transactions", as_json=arguments.json)
    return 0


async def describe(arguments: argparse.Namespace, cluster: TransactionsClient) -> int:
    descriptions = await cluster.describe_transactions(dict.fromkeys(arguments.ids))
    missing = [name for name, (transaction, _) in descriptions.items() if transaction is None]
    for name in missing:
        print(f"odradek: {name}: there is no such transactional id", file=sys.stderr)
    rows = [
        _description_row(transaction, coordinator)
        for transaction, coordinator in descriptions.values()
        if transaction is not None
    ]
    if rows:
        tables.show(COLUMNS, rows, title="Transactions", as_json=arguments.json)
    return 1 if missing else 0


def _description_row(transaction: TransactionDescription, coordinator: int) -> tables.Row:
    start_ms = transaction.transaction_start_time_ms
    now_ms = int(time.time() * 1000)
    return (
        *(transaction.transactional_id, coordinator),
        *(transaction.producer_id, transaction.producer_epoch),
        *(transaction.transaction_state, transaction.transaction_timeout_ms),
        *((start_ms, now_ms - start_ms) if start_ms >= 0 else (None, None)),
        sorted(
            str(TopicAndPartition(topic.topic, number))
            for topic in transaction.topics
            for number in topic.partitions
        ),
    )


async def describe_producers(arguments: argparse.Namespace, cluster: TransactionsClient) -> int:
    topic_partitions = resolve_scopes(
        client.create_admin_client(arguments), arguments.scopes, arguments.timeout
    )
    producers = await cluster.describe_producers(topic_partitions, broker_id=arguments.broker)
    rows = [
        (
            *topic_partition,
            *(each.producer_id, each.producer_epoch, each.coordinator_epoch, each.last_sequence),
            *(each.last_timestamp, hanging.open_transaction_start_offset(each)),
        )
        for topic_partition, partition_producers in producers.items()
        for each in partition_producers
    ]
    tables.show(PRODUCER_COLUMNS, rows, title="Producers", as_json=arguments.json)
    return 0
