"""``odradek groups delete-offsets``: delete the committed offsets of a group for topics.

confluent-kafka has no function for OffsetDelete.  It describes the group, which names the
coordinator; broker_connections.py sends the request there.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.cli import broker_connections, client
from odradek.broker.cli.broker_connections import Address, BrokerConnections
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.groups import lookup
from odradek.broker.cli.groups.scope import SYNTAX, parse_scope, resolve_scopes
from odradek.broker.cli.partitions import TopicAndPartition

if TYPE_CHECKING:
    from odradek.protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

VERSION = 0  # the only version
TOOL = "kafka-consumer-groups --delete-offsets"


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "delete-offsets",
        help="delete the committed offsets of a group for topics",
        description="Delete the committed offsets of a group for topics to which no member of the "
        "group is subscribed.  Needs a listener without TLS and SASL.",
        **examples(
            "odradek groups delete-offsets billing --topic orders",
            "odradek groups delete-offsets billing --topic orders:0,2 --topic payments",
        ),
    )
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "--topic",
        dest="scopes",
        metavar=SYNTAX,
        type=parse_scope,
        action="append",
        required=True,
        help="this topic, or these partitions of it; repeatable",
    )
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(delete_offsets))


def delete_offsets(arguments: argparse.Namespace) -> int:
    return broker_connections.run(arguments, partial(_delete, arguments), tool=TOOL)


async def _delete(arguments: argparse.Namespace, connections: BrokerConnections) -> int:
    admin = client.create_admin_client(arguments)
    group = arguments.group
    description = lookup.describe_groups(admin, [group], arguments.timeout)[group]
    if description is None:
        raise CommandFailed(f"{group}: there is no such group")
    topic_partitions = resolve_scopes(admin, arguments.scopes, arguments.timeout)
    coordinator = Address(description.coordinator.host, description.coordinator.port)
    response: OffsetDeleteResponse = await connections.send(
        coordinator, _request(group, topic_partitions), version=VERSION
    )
    if response.error_code:
        raise CommandFailed(f"{group}: {broker_connections.format_error_code(response.error_code)}")
    status = 0
    for topic in response.topics:
        for partition in topic.partitions:
            topic_partition = TopicAndPartition(topic.name, partition.partition_index)
            if partition.error_code:
                reason = broker_connections.format_error_code(partition.error_code)
                print(f"odradek: {group}: {topic_partition}: {reason}", file=sys.stderr)
                status = 1
            else:
                print(f"{group}: {topic_partition} deleted")
    return status


def _request(group: str, topic_partitions: list[TopicAndPartition]) -> OffsetDeleteRequest:
    from odradek.protocol.api.offset_delete import OffsetDeleteRequest

    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequest.Topic(
                name=name,
                partitions=[
                    OffsetDeleteRequest.Topic.Partition(partition_index=each.partition)
                    for each in partitions
                ],
            )
            for name, partitions in itertools.groupby(
                topic_partitions, key=lambda topic_partition: topic_partition.topic
            )
        ],
    )
