"""``odradek groups delete-offsets``: forget what a group has committed for topics.

confluent-kafka has no function for it, so the request goes to the group's coordinator, whom that
library names, over a connection of our own, which speaks neither TLS nor SASL.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from typing import TYPE_CHECKING, Any

from odradek.broker.cli import cluster
from odradek.broker.cli.assignments import by_name
from odradek.broker.cli.examples import examples
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.groups import lookup
from odradek.broker.cli.groups.scope import SYNTAX, places, scope
from odradek.broker.cli.partitions import Place

if TYPE_CHECKING:
    from odradek.protocol.api.offset_delete import OffsetDeleteResponse

VERSION = 0  # the only one there is
PLAIN = "plaintext"


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
    cluster.add_options(parser)
    parser.set_defaults(run=cluster.client_command(delete_offsets))


def delete_offsets(arguments: argparse.Namespace) -> int:
    _check_plain(by_name(arguments.property))
    admin = cluster.admin(arguments)
    group = arguments.group
    description = lookup.described(admin, [group], arguments.timeout)[group]
    if description is None:
        raise CommandFailed(f"{group}: there is no such group")
    meant = places(admin, arguments.scopes, arguments.timeout)
    answer = _asked(description.coordinator, group, meant, arguments.timeout)
    if answer.error_code:
        raise CommandFailed(f"{group}: {_reason(answer.error_code)}")
    status = 0
    for topic in answer.topics:
        for partition in topic.partitions:
            place = Place(topic.name, partition.partition_index)
            if partition.error_code:
                reason = _reason(partition.error_code)
                print(f"odradek: {group}: {place}: {reason}", file=sys.stderr)
                status = 1
            else:
                print(f"{group}: {place} deleted")
    return status


def _check_plain(properties: dict[str, str]) -> None:
    protocol = properties.get("security.protocol", PLAIN)
    if protocol.lower() != PLAIN:
        raise CommandFailed(
            f"confluent-kafka cannot delete offsets, and this command cannot speak {protocol}: "
            "use Kafka's kafka-consumer-groups --delete-offsets"
        )


def _asked(
    coordinator: Any, group: str, meant: list[Place], timeout_s: float
) -> OffsetDeleteResponse:
    import asyncio

    from odradek.broker.network.client import BrokerClient
    from odradek.protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from odradek.protocol.errors import DecodeError

    request = OffsetDeleteRequest(
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

    async def answer() -> Any:
        client = BrokerClient(
            coordinator.host, coordinator.port, client_id=cluster.CLIENT_ID, timeout_s=timeout_s
        )
        try:
            return await client.send(request, version=VERSION)
        finally:
            client.close()

    try:
        answered = asyncio.run(answer())
    except (OSError, DecodeError) as failure:
        address = f"{coordinator.host}:{coordinator.port}"
        raise CommandFailed(
            f"{group}: its coordinator at {address} did not answer: {failure or 'no time left'}"
        ) from failure
    assert isinstance(answered, OffsetDeleteResponse), answered
    return answered


def _reason(code: int) -> str:
    from odradek.protocol.error_codes import ErrorCode

    error = ErrorCode.of(code)
    return f"{error.name}: {error.message}"
