"""``odradek leaders``: have the cluster elect leaders of partitions."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from odradek.broker.cli import client, tables
from odradek.broker.cli.examples import examples
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.groups.scope import SYNTAX, Scope, scope
from odradek.broker.cli.operated import OperatedCluster, Picture, by_topic, check, error_name, told
from odradek.broker.cli.operated import verb as with_cluster
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.plans import read_places

Commands = argparse._SubParsersAction  # the only name that argparse has for it

TOOL = "kafka-leader-election"
KINDS = {"preferred": 0, "unclean": 1}
VERSION = 1  # the first that has unclean elections, and an error of the whole
SPARE_MS = 1000
COLUMNS = ("topic", "partition", "outcome", "leader")
ELECTED, NOT_NEEDED = "elected", "not needed"
FAILED = 1


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "leaders",
        help="elect leaders of partitions",
        description="Have the cluster elect leaders of partitions.  Needs a listener without TLS "
        "and SASL.",
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
        help="elect the preferred leaders, or any where there is none",
        description="Elect leaders.  Preferred is the first replica of a partition; it must be in "
        "sync.  Unclean is for a partition without a leader: any replica that is alive shall lead "
        "it, though records may be lost by that.",
        **examples(
            "odradek leaders elect --all",
            "odradek leaders elect orders payments:0,2",
            "odradek leaders elect --type unclean --file partitions.json",
        ),
    )
    parser.add_argument("scopes", nargs="*", metavar=SYNTAX, type=scope)
    parser.add_argument(
        "--type",
        "--election-type",  # as Kafka's tool has it
        dest="kind",
        type=str.lower,
        choices=[*KINDS],
        default="preferred",
        help="which election (%(default)s)",
    )
    parser.add_argument(
        "--all",
        "--all-topic-partitions",
        action="store_true",
        help="all partitions that need one",
    )
    parser.add_argument(
        "--file",
        "--path-to-json-file",
        metavar="FILE",
        help='partitions: {"partitions": [{"topic": "orders", "partition": 0}]}; - is standard '
        "input",
    )
    tables.add_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=with_cluster(elect, tool=TOOL))


async def elect(arguments: argparse.Namespace, asked: OperatedCluster) -> int:
    places = await _places(arguments, asked)
    outcomes = await _elected(asked, KINDS[arguments.kind], places)
    picture = await asked.picture()
    rows = [
        (*place, outcome, _leader(picture, place)) for place, outcome in sorted(outcomes.items())
    ]
    tables.show(COLUMNS, rows, title="Elections", as_json=arguments.json)
    are_well = all(outcome in (ELECTED, NOT_NEEDED) for outcome in outcomes.values())
    return 0 if are_well else FAILED


async def _places(arguments: argparse.Namespace, asked: OperatedCluster) -> list[Place] | None:
    """None: all."""
    ways = [bool(arguments.scopes), arguments.all, arguments.file is not None]
    if sum(ways) != 1:
        raise CommandFailed("which partitions: name some, or give --all or --file")
    if arguments.all:
        return None
    if arguments.file is not None:
        return read_places(arguments.file)
    picture = await asked.picture({each.topic for each in arguments.scopes})
    return sorted({place for each in arguments.scopes for place in _in_scope(each, picture)})


def _in_scope(wanted: Scope, picture: Picture) -> list[Place]:
    if wanted.partitions:
        return [Place(wanted.topic, number) for number in wanted.partitions]
    return [place for place in picture.partitions if place.topic == wanted.topic]


async def _elected(
    asked: OperatedCluster, kind: int, places: list[Place] | None
) -> Mapping[Place, str]:
    """What became of each."""
    from odradek.protocol.api.elect_leaders import ElectLeadersRequest

    named = ElectLeadersRequest.TopicPartitions
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=None
        if places is None
        else [
            named(topic=topic, partitions=numbers) for topic, numbers in by_topic(places).items()
        ],
        timeout_ms=max(1, int(asked.timeout_s * 1000) - SPARE_MS),
    )
    answer = await asked.ask_controller(request, version=VERSION, codes=_codes)
    check(answer.error_code, of="elections")
    return {
        Place(topic.topic, each.partition_id): _outcome(each)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


def _outcome(line: Any) -> str:
    if not line.error_code:
        return ELECTED
    if error_name(line.error_code) == "ELECTION_NOT_NEEDED":
        return NOT_NEEDED
    return told(line.error_code, line.error_message)


def _codes(answer: Any) -> list[int]:
    lines = [each for topic in answer.replica_election_results for each in topic.partition_result]
    return [answer.error_code, *(each.error_code for each in lines)]


def _leader(picture: Picture, place: Place) -> int | None:
    found = picture.partitions.get(place)
    return None if found is None else found.leader
