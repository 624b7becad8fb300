"""``odradek groups reset-offsets``: commit other offsets for groups that nobody is in.

A plan is made for each group and shown; it is written only with --execute.  Groups fail alone: one
that has members is refused, whatever becomes of the others.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from odradek.broker.cli import client, partitions, tables
from odradek.broker.cli.examples import examples
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.groups import lookup, reset_file, reset_target
from odradek.broker.cli.groups.scope import SYNTAX, places, scope
from odradek.broker.cli.partitions import Offsets, Place

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

COLUMNS = ("group", "topic", "partition", "committed", "new_offset")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be committed for a group, and what is now."""

    group: str
    committed: Offsets
    offsets: Offsets


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "reset-offsets",
        help="commit other offsets for groups without members; a dry run unless --execute",
        description="Show which offsets groups would have, and with --execute commit them.  Only "
        "groups without members can be reset; one that is not there yet is made.  An offset "
        "outside the log becomes the log's start or end.",
        **examples(
            "odradek groups reset-offsets billing --topic orders --to-earliest",
            "odradek groups reset-offsets billing --topic orders:0,2 --shift-by -100 --execute",
            "odradek groups reset-offsets billing --all-topics --by-duration PT12H --execute",
            "odradek groups reset-offsets billing --all-topics --to-current --export > plan.csv",
            "odradek groups reset-offsets billing --from-file plan.csv --execute",
        ),
    )
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help="those in the file, if it names them"
    )
    parser.add_argument("--all-groups", action="store_true", help="all that are there")
    scopes = parser.add_argument_group("of which topics").add_mutually_exclusive_group()
    scopes.add_argument(
        "--all-topics", action="store_true", help="all of which the group has committed offsets"
    )
    scopes.add_argument(
        "--topic",
        dest="scopes",
        metavar=SYNTAX,
        type=scope,
        action="append",
        default=[],
        help="this topic, or these partitions of it; repeatable",
    )
    reset_target.add_options(parser)
    _add_manners(parser)
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(reset))


def _add_manners(parser: argparse.ArgumentParser) -> None:
    manners = parser.add_mutually_exclusive_group()
    manners.add_argument("--execute", action="store_true", help="commit the offsets")
    manners.add_argument(
        "--dry-run", action="store_true", help="only show them, as if not given, but say no more"
    )
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument(
        "--export", action="store_true", help="print them as lines for --from-file"
    )
    tables.add_options(printed)


def reset(arguments: argparse.Namespace) -> int:
    _check_scope(arguments)
    admin = client.admin(arguments)
    filed = reset_file.read_plans(arguments.file, arguments.groups) if arguments.file else None
    plans, is_refused = [], False
    for group in _groups(admin, arguments, filed):
        try:
            plan = _plan(admin, arguments, group, filed)
            plans.append(_written(admin, plan, arguments.timeout) if arguments.execute else plan)
        except CommandFailed as failure:
            print(f"odradek: {failure}", file=sys.stderr)
            is_refused = True
        else:
            is_refused |= plans[-1] != plan
    _show(plans, arguments)
    return 1 if is_refused else 0


def _check_scope(arguments: argparse.Namespace) -> None:
    is_scoped = arguments.all_topics or bool(arguments.scopes)
    if is_scoped and arguments.file:
        raise CommandFailed("the file says which partitions: --from-file goes without a topic")
    if not is_scoped and not arguments.file:
        raise CommandFailed("of which topics? give --topic or --all-topics")


def _groups(
    admin: AdminClient, arguments: argparse.Namespace, filed: dict[str, Offsets] | None
) -> list[str]:
    if filed and not arguments.groups and not arguments.all_groups:
        return sorted(filed)
    return lookup.names(admin, arguments)


def _plan(
    admin: AdminClient, arguments: argparse.Namespace, group: str, filed: dict[str, Offsets] | None
) -> Plan:
    description = lookup.described(admin, [group], arguments.timeout)[group]
    if description is not None and lookup.state(description) != lookup.EMPTY:
        raise CommandFailed(
            f"{group}: offsets can be reset only while a group has no members, and it is "
            f"{lookup.state(description)}"
        )
    committed = lookup.committed(admin, [group], arguments.timeout)[group]
    resolver = reset_target.Resolver(admin, group, arguments.timeout)
    if filed is not None:
        if group not in filed:
            raise CommandFailed(f"{group}: {arguments.file} has no line for it")
        return Plan(group, committed, resolver.within_logs(filed[group]))
    if arguments.all_topics:
        meant = _of_topics_that_exist(admin, group, committed, arguments.timeout)
    else:
        meant = places(admin, arguments.scopes, arguments.timeout)
    if not meant and not arguments.all_groups:
        raise CommandFailed(f"{group}: nothing is committed; say with --topic what to reset")
    return Plan(group, committed, resolver.offsets(arguments.target, meant, committed))


def _of_topics_that_exist(
    admin: AdminClient, group: str, committed: Offsets, timeout_s: float
) -> list[Place]:
    """Offsets may outlive their topics: there is no log then in which they could be reset."""
    there = partitions.that_exist(admin, committed, timeout_s)
    gone = {place.topic for place in committed.keys() - there}
    for topic in sorted(gone):
        print(
            f"odradek: {group}: {topic}: partitions that are gone are passed over", file=sys.stderr
        )
    return there


def _written(admin: AdminClient, plan: Plan, timeout_s: float) -> Plan:
    """What of the plan was committed; of what was not, a line has told."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    if not plan.offsets:
        return plan
    asked = [TopicPartition(*place, offset) for place, offset in plan.offsets.items()]
    futures = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(plan.group, asked)], request_timeout=timeout_s
    )
    answered = client.outcome(plan.group, futures[plan.group]).topic_partitions
    refused = {Place(at.topic, at.partition): at.error for at in answered if at.error is not None}
    for place, error in sorted(refused.items()):
        print(f"odradek: {plan.group}: {place}: {client.reason(error)}", file=sys.stderr)
    done = {place: offset for place, offset in plan.offsets.items() if place not in refused}
    return replace(plan, offsets=done)


def _show(plans: list[Plan], arguments: argparse.Namespace) -> None:
    if not any(plan.offsets for plan in plans):
        return
    if arguments.export:
        exported = [(plan.group, plan.offsets) for plan in plans]
        reset_file.write_plans(exported, with_group=len(arguments.groups) != 1)
    else:
        rows = [
            (plan.group, *place, plan.committed.get(place), offset)
            for plan in plans
            for place, offset in sorted(plan.offsets.items())
        ]
        title = "Offsets that were reset" if arguments.execute else "Offsets that would be reset"
        tables.show(COLUMNS, rows, title=title, as_json=arguments.json)
    if not arguments.execute and not arguments.dry_run:
        print("odradek: a dry run: --execute commits this", file=sys.stderr)
