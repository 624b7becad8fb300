"""``odradek leaders``: elect partition leaders (Kafka: kafka-leader-election)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from odradek.broker.cli import client, tables
from odradek.broker.cli.cluster_client import (
    ClusterClient,
    MetadataSnapshot,
    check_error,
    error_name,
    format_error,
    group_by_topic,
)
from odradek.broker.cli.cluster_client import cluster_command as with_cluster
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.groups.scope import SYNTAX, TopicScope, parse_scope
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.plans import read_partitions

Commands = argparse._SubParsersAction  # the only name that argparse has for it

TOOL = "kafka-leader-election"
ELECTION_TYPES = {"preferred": 0, "unclean": 1}
VERSION = 1  # the first version with unclean elections and a top-level error code
TIMEOUT_MARGIN_MS = 1000
COLUMNS = ("topic", "partition", "outcome", "leader")
ELECTED, NOT_NEEDED = "elected", "not needed"
FAILED = 1


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "leaders",
        help="elect partition leaders",
        description="Elect partition leaders.  Needs a listener without TLS and SASL.",
        **examples(
            "odradek leaders elect --all",
            "odradek leaders elect orders:0,2 --type unclean",
        ),
    )
    verbs = parser.add_subparsers(title="what to do", metavar="VERB", required=True)
    _add_elect(verbs)


def _add_elect(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "elect",
        help="elect the preferred leaders, or unclean leaders",
        description="Elect leaders.  A preferred election makes the first replica of a partition "
        "its leader; that replica must be in the ISR.  An unclean election is for a partition "
        "without a leader: any live replica becomes the leader, and records may be lost.",
        **examples(
            "odradek leaders elect --all",
            "odradek leaders elect orders payments:0,2",
            "odradek leaders elect --type unclean --file partitions.json",
        ),
    )
    parser.add_argument("scopes", nargs="*", metavar=SYNTAX, type=parse_scope)
    parser.add_argument(
        "--type",
        "--election-type",  # the name in Kafka's tool
        dest="kind",
        type=str.lower,
        choices=[*ELECTION_TYPES],
        default="preferred",
        help="the election type (%(default)s)",
    )
    parser.add_argument(
        "--all",
        "--all-topic-partitions",
        action="store_true",
        help="all partitions that need an election",
    )
    parser.add_argument(
        "--file",
        "--path-to-json-file",
        metavar="FILE",
        help="read the partitions from this file: "
        '{"partitions": [{"topic": "orders", "partition": 0}]}; - is standard input',
    )
    tables.add_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=with_cluster(elect, tool=TOOL))


async def elect(arguments: argparse.Namespace, cluster: ClusterClient) -> int:
    topic_partitions = await _selected_partitions(arguments, cluster)
    outcomes = await _elect_leaders(cluster, ELECTION_TYPES[arguments.kind], topic_partitions)
    # Other brokers may not know the new leaders yet.
    snapshot = await cluster.fetch_controller_metadata()
    rows = [
        (*topic_partition, outcome, _current_leader(snapshot, topic_partition))
        for topic_partition, outcome in sorted(outcomes.items())
    ]
    tables.show(COLUMNS, rows, title="Elections", as_json=arguments.json)
    succeeded = all(outcome in (ELECTED, NOT_NEEDED) for outcome in outcomes.values())
    return 0 if succeeded else FAILED


async def _selected_partitions(
    arguments: argparse.Namespace, cluster: ClusterClient
) -> list[TopicAndPartition] | None:
    """Return None for all partitions."""
    choices = [bool(arguments.scopes), arguments.all, arguments.file is not None]
    if sum(choices) != 1:
        raise CommandFailed("give exactly one of: partitions, --all, --file")
    if arguments.all:
        return None
    if arguments.file is not None:
        return read_partitions(arguments.file)
    snapshot = await cluster.fetch_metadata({scope.topic for scope in arguments.scopes})
    return sorted(
        {
            topic_partition
            for scope in arguments.scopes
            for topic_partition in _partitions_in_scope(scope, snapshot)
        }
    )


def _partitions_in_scope(
    topic_scope: TopicScope, snapshot: MetadataSnapshot
) -> list[TopicAndPartition]:
    if topic_scope.partitions:
        return [TopicAndPartition(topic_scope.topic, number) for number in topic_scope.partitions]
    return [
        topic_partition
        for topic_partition in snapshot.partitions
        if topic_partition.topic == topic_scope.topic
    ]


async def _elect_leaders(
    cluster: ClusterClient, election_type: int, topic_partitions: list[TopicAndPartition] | None
) -> Mapping[TopicAndPartition, str]:
    """Return the outcome of each partition."""
    from odradek.protocol.api.elect_leaders import ElectLeadersRequest

    topic_entry = ElectLeadersRequest.TopicPartitions
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=None
        if topic_partitions is None
        else [
            topic_entry(topic=topic, partitions=numbers)
            for topic, numbers in group_by_topic(topic_partitions).items()
        ],
        timeout_ms=max(1, int(cluster.timeout_s * 1000) - TIMEOUT_MARGIN_MS),
    )
    response = await cluster.send_to_controller(request, version=VERSION, error_codes=_error_codes)
    check_error(response.error_code, subject="elections")
    return {
        TopicAndPartition(topic.topic, result.partition_id): _election_result(result)
        for topic in response.replica_election_results
        for result in topic.partition_result
    }


def _election_result(partition_result: Any) -> str:
    if not partition_result.error_code:
        return ELECTED
    if error_name(partition_result.error_code) == "ELECTION_NOT_NEEDED":
        return NOT_NEEDED
    return format_error(partition_result.error_code, partition_result.error_message)


def _error_codes(response: Any) -> list[int]:
    results = [
        result for topic in response.replica_election_results for result in topic.partition_result
    ]
    return [response.error_code, *(result.error_code for result in results)]


def _current_leader(snapshot: MetadataSnapshot, topic_partition: TopicAndPartition) -> int | None:
    partition = snapshot.partitions.get(topic_partition)
    return None if partition is None else partition.leader
