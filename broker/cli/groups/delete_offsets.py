"""``odradek groups delete-offsets``: forget what a group has committed for topics.

confluent-kafka has no function for it, so the request goes to the group's coordinator, whom that
library names, over a connection of our own.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.cli import client, direct
from odradek.broker.cli.direct import Address, Connections
from odradek.broker.cli.examples import examples
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.groups import lookup
from odradek.broker.cli.groups.scope import SYNTAX, places, scope
from odradek.broker.cli.partitions import Place

if TYPE_CHECKING:
    from odradek.protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

VERSION = 0  # the only one there is
TOOL = "kafka-consumer-groups --delete-offsets"


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "delete-offsets",
        help="forget what a group has committed for topics",
        description="Delete the offsets that a group has committed for topics which none of its "
        "members subscribes to.  Needs a listener without TLS and SASL.",
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
        type=scope,
        action="append",
        required=True,
        help="this topic, or these partitions of it; repeatable",
    )
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(delete_offsets))


def delete_offsets(arguments: argparse.Namespace) -> int:
    return direct.run(arguments, partial(_delete, arguments), tool=TOOL)


async def _delete(arguments: argparse.Namespace, connections: Connections) -> int:
    admin = client.admin(arguments)
    group = arguments.group
    description = lookup.described(admin, [group], arguments.timeout)[group]
    if description is None:
        raise CommandFailed(f"{group}: there is no such group")
    meant = places(admin, arguments.scopes, arguments.timeout)
    at = Address(description.coordinator.host, description.coordinator.port)
    answer: OffsetDeleteResponse = await connections.ask(
        at, _request(group, meant), version=VERSION
    )
    if answer.error_code:
        raise CommandFailed(f"{group}: {direct.reason(answer.error_code)}")
    status = 0
    for topic in answer.topics:
        for partition in topic.partitions:
            place = Place(topic.name, partition.partition_index)
            if partition.error_code:
                reason = direct.reason(partition.error_code)
                print(f"odradek: {group}: {place}: {reason}", file=sys.stderr)
                status = 1
            else:
                print(f"{group}: {place} deleted")
    return status


def _request(group: str, meant: list[Place]) -> OffsetDeleteRequest:
    from odradek.protocol.api.offset_delete import OffsetDeleteRequest

    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequest.Topic(
                name=name,
                partitions=[
                    OffsetDeleteRequest.Topic.Partition(partition_index=place.partition)
                    for place in of_topic
                ],
            )
            for name, of_topic in itertools.groupby(meant, key=lambda place: place.topic)
        ],
    )
