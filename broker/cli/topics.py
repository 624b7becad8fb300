"""``odradek topics``: create, list, describe, alter and delete topics."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from odradek.broker.cli import client, partitions, tables
from odradek.broker.cli.configs import alter_topic
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.name_values import parse_name_value, to_dict

if TYPE_CHECKING:
    from confluent_kafka.admin import TopicDescription

Commands = argparse._SubParsersAction  # the only name that argparse has for it

FROM_BROKER = -1
COLUMNS = ("topic", "partition", "leader", "replicas", "isr", "start", "end")


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "topics",
        help="create, list, describe, alter and delete topics",
        description="Create, list, describe, alter and delete topics.",
        **examples(
            "odradek topics create orders --partitions 3 --config retention.ms=60000",
            "odradek topics describe orders",
        ),
    )
    verbs = parser.add_subparsers(title="what to do", metavar="VERB", required=True)
    _add_create(verbs)
    _add_list(verbs)
    _add_describe(verbs)
    _add_alter(verbs)
    _add_delete(verbs)


def _add_create(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("create", help="create topics", description="Create topics.")
    parser.add_argument("names", nargs="+", metavar="TOPIC")
    parser.add_argument(
        "--partitions",
        metavar="N",
        type=int,
        default=FROM_BROKER,
        help="the number of partitions (num.partitions of the broker)",
    )
    parser.add_argument(
        "--replication-factor",
        metavar="N",
        type=int,
        default=FROM_BROKER,
        help="the number of replicas (default.replication.factor of the broker)",
    )
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE",
        type=parse_name_value,
        action="append",
        default=[],
        help="a setting of the topics; repeatable",
    )
    parser.add_argument("--if-not-exists", action="store_true", help="ignore existing topics")
    _finish_parser(parser, create)


def _add_list(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("list", help="list topics", description="List all topics, by name.")
    parser.add_argument("--no-internal", action="store_true", help="omit internal topics")
    tables.add_options(parser)
    _finish_parser(parser, list_topics)


def _add_describe(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "describe",
        help="show partitions, leaders, replicas and offsets",
        description="Show each partition of the topics: its leader, its replicas, its ISR, and its "
        "log start and end offsets.  A partition without a leader shows no offsets.",
    )
    parser.add_argument("names", nargs="*", metavar="TOPIC", help="the topics (all topics)")
    tables.add_options(parser)
    _finish_parser(parser, describe)


def _add_alter(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "alter",
        help="add partitions, change settings",
        description="Add partitions to a topic, or change its settings, or both.",
    )
    parser.add_argument("name", metavar="TOPIC")
    parser.add_argument("--partitions", metavar="N", type=int, help="the new number of partitions")
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE",
        type=parse_name_value,
        action="append",
        default=[],
        help="a setting to change; repeatable",
    )
    parser.add_argument(
        "--unset",
        metavar="NAME",
        action="append",
        default=[],
        help="a setting to reset to its default; repeatable",
    )
    _finish_parser(parser, alter)


def _add_delete(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "delete", help="delete topics", description="Delete topics with all their records."
    )
    parser.add_argument("names", nargs="+", metavar="TOPIC")
    parser.add_argument("--if-exists", action="store_true", help="ignore topics that do not exist")
    _finish_parser(parser, delete)


def _finish_parser(parser: argparse.ArgumentParser, run: client.CommandFunction) -> None:
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(run))


def create(arguments: argparse.Namespace) -> int:
    from confluent_kafka.admin import NewTopic

    topics = [
        NewTopic(
            name,
            num_partitions=arguments.partitions,
            replication_factor=arguments.replication_factor,
            config=to_dict(arguments.config),
        )
        for name in dict.fromkeys(arguments.names)
    ]
    admin = client.create_admin_client(arguments)
    futures = admin.create_topics(topics, **client.timeouts(arguments))
    ignored_errors = frozenset({"TOPIC_ALREADY_EXISTS"} if arguments.if_not_exists else ())
    return client.report_results(futures, done="created", ignored_errors=ignored_errors)


def list_topics(arguments: argparse.Namespace) -> int:
    topics = partitions.describe_topics(
        client.create_admin_client(arguments), [], arguments.timeout
    )
    rows = [
        (topic.name, len(topic.partitions), _replication_factor(topic), topic.is_internal)
        for topic in topics
        if not (arguments.no_internal and topic.is_internal)
    ]
    columns = ("topic", "partitions", "replicas", "internal")
    tables.show(columns, rows, title="Topics", as_json=arguments.json)
    return 0


def describe(arguments: argparse.Namespace) -> int:
    admin = client.create_admin_client(arguments)
    topics = partitions.describe_topics(admin, arguments.names, arguments.timeout)
    with_leader = [
        partitions.TopicAndPartition(topic.name, partition.id)
        for topic in topics
        for partition in topic.partitions
        if partition.leader is not None
    ]
    starts = partitions.log_start_offsets(admin, with_leader, arguments.timeout)
    ends = partitions.log_end_offsets(admin, with_leader, arguments.timeout)
    rows = [
        (
            topic.name,
            partition.id,
            None if partition.leader is None else partition.leader.id,
            [node.id for node in partition.replicas],
            [node.id for node in partition.isr],
            starts.get(partitions.TopicAndPartition(topic.name, partition.id)),
            ends.get(partitions.TopicAndPartition(topic.name, partition.id)),
        )
        for topic in topics
        for partition in topic.partitions
    ]
    tables.show(COLUMNS, rows, title="Partitions", as_json=arguments.json)
    return 0


def alter(arguments: argparse.Namespace) -> int:
    from confluent_kafka.admin import NewPartitions

    if arguments.partitions is None and not (arguments.config or arguments.unset):
        raise CommandFailed("no change given: use --partitions, --config or --unset")
    admin = client.create_admin_client(arguments)
    status = 0
    if arguments.config or arguments.unset:
        status |= alter_topic(arguments, to_dict(arguments.config), arguments.unset)
    if arguments.partitions is not None:
        new_partitions = [NewPartitions(arguments.name, arguments.partitions)]
        futures = admin.create_partitions(new_partitions, **client.timeouts(arguments))
        status |= client.report_results(futures, done=f"has {arguments.partitions} partitions")
    return status


def delete(arguments: argparse.Namespace) -> int:
    admin = client.create_admin_client(arguments)
    names = list(dict.fromkeys(arguments.names))
    futures = admin.delete_topics(names, **client.timeouts(arguments))
    ignored_errors = frozenset({"UNKNOWN_TOPIC_OR_PART"} if arguments.if_exists else ())
    return client.report_results(futures, done="deleted", ignored_errors=ignored_errors)


def _replication_factor(topic: TopicDescription) -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)
