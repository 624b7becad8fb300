"""``odradek groups reset-offsets``: commit new offsets for groups without members.

The command plans and prints the new offsets of each group; it commits them only with --execute.
Each group fails on its own: a group with members is rejected, and the others are still reset.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from odradek.broker.cli import client, partitions, tables
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.groups import lookup, reset_file, reset_target
from odradek.broker.cli.groups.scope import SYNTAX, parse_scope, resolve_scopes
from odradek.broker.cli.partitions import Offsets, TopicAndPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

COLUMNS = ("group", "topic", "partition", "committed", "new_offset")


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The new offsets of a group, and its committed offsets."""

    group: str
    committed: Offsets
    offsets: Offsets


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "reset-offsets",
        help="commit new offsets for groups without members; a dry run unless --execute",
        description="Show the new offsets of groups and, with --execute, commit them.  Only groups "
        "without members can be reset; a group that does not exist is created.  An offset outside "
        "the log becomes the log start or end offset.",
        **examples(
            "odradek groups reset-offsets billing --topic orders --to-earliest",
            "odradek groups reset-offsets billing --topic orders:0,2 --shift-by -100 --execute",
            "odradek groups reset-offsets billing --all-topics --by-duration PT12H --execute",
            "odradek groups reset-offsets billing --all-topics --to-current --export > plan.csv",
            "odradek groups reset-offsets billing --from-file plan.csv --execute",
        ),
    )
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help="the groups (the groups in the file)"
    )
    parser.add_argument("--all-groups", action="store_true", help="all groups of the cluster")
    scopes = parser.add_argument_group("topics").add_mutually_exclusive_group()
    scopes.add_argument(
        "--all-topics",
        action="store_true",
        help="all topics for which the group has committed offsets",
    )
    scopes.add_argument(
        "--topic",
        dest="scopes",
        metavar=SYNTAX,
        type=parse_scope,
        action="append",
        default=[],
        help="this topic, or these partitions of it; repeatable",
    )
    reset_target.add_options(parser)
    _add_mode_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(reset))


def _add_mode_options(parser: argparse.ArgumentParser) -> None:
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--execute", action="store_true", help="commit the new offsets")
    modes.add_argument(
        "--dry-run",
        action="store_true",
        help="only show the new offsets (the default), without the hint about --execute",
    )
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--export", action="store_true", help="print the new offsets as CSV for --from-file"
    )
    tables.add_options(formats)


def reset(arguments: argparse.Namespace) -> int:
    _check_scope(arguments)
    admin = client.create_admin_client(arguments)
    file_plans = reset_file.read_plans(arguments.file, arguments.groups) if arguments.file else None
    plans, has_errors = [], False
    for group in _selected_groups(admin, arguments, file_plans):
        try:
            plan = _make_plan(admin, arguments, group, file_plans)
            plans.append(
                _commit_plan(admin, plan, arguments.timeout) if arguments.execute else plan
            )
        except CommandFailed as error:
            print(f"odradek: {error}", file=sys.stderr)
            has_errors = True
        else:
            has_errors |= plans[-1] != plan
    _show(plans, arguments)
    return 1 if has_errors else 0


def _check_scope(arguments: argparse.Namespace) -> None:
    is_scoped = arguments.all_topics or bool(arguments.scopes)
    if is_scoped and arguments.file:
        raise CommandFailed("--from-file names the partitions: give no --topic or --all-topics")
    if not is_scoped and not arguments.file:
        raise CommandFailed("no topics: give --topic or --all-topics")


def _selected_groups(
    admin: AdminClient, arguments: argparse.Namespace, file_plans: dict[str, Offsets] | None
) -> list[str]:
    if file_plans and not arguments.groups and not arguments.all_groups:
        return sorted(file_plans)
    return lookup.selected_groups(admin, arguments)


def _make_plan(
    admin: AdminClient,
    arguments: argparse.Namespace,
    group: str,
    file_plans: dict[str, Offsets] | None,
) -> ResetPlan:
    description = lookup.describe_groups(admin, [group], arguments.timeout)[group]
    if description is not None and lookup.state(description) != lookup.EMPTY:
        raise CommandFailed(
            f"{group}: offsets can be reset only if the group has no members, but its state is "
            f"{lookup.state(description)}"
        )
    committed = lookup.committed_offsets(admin, [group], arguments.timeout)[group]
    resolver = reset_target.TargetResolver(admin, group, arguments.timeout)
    if file_plans is not None:
        if group not in file_plans:
            raise CommandFailed(f"{group}: no line for this group in {arguments.file}")
        return ResetPlan(group, committed, resolver.clamp_to_logs(file_plans[group]))
    if arguments.all_topics:
        topic_partitions = _existing_partitions(admin, group, committed, arguments.timeout)
    else:
        topic_partitions = resolve_scopes(admin, arguments.scopes, arguments.timeout)
    if not topic_partitions and not arguments.all_groups:
        raise CommandFailed(f"{group}: no committed offsets: give --topic")
    return ResetPlan(
        group, committed, resolver.resolve(arguments.target, topic_partitions, committed)
    )


def _existing_partitions(
    admin: AdminClient, group: str, committed: Offsets, timeout_s: float
) -> list[TopicAndPartition]:
    """Committed offsets may outlive their topics; without a log they cannot be reset."""
    existing = partitions.existing_partitions(admin, committed, timeout_s)
    missing = {topic_partition.topic for topic_partition in committed.keys() - existing}
    for topic in sorted(missing):
        print(f"odradek: {group}: {topic}: skipping partitions that do not exist", file=sys.stderr)
    return existing


def _commit_plan(admin: AdminClient, plan: ResetPlan, timeout_s: float) -> ResetPlan:
    """Return the part of the plan that was committed; print an error for each other partition."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    if not plan.offsets:
        return plan
    request = [
        TopicPartition(*topic_partition, offset) for topic_partition, offset in plan.offsets.items()
    ]
    futures = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(plan.group, request)], request_timeout=timeout_s
    )
    results = client.wait_for_result(plan.group, futures[plan.group]).topic_partitions
    errors = {
        TopicAndPartition(each.topic, each.partition): each.error
        for each in results
        if each.error is not None
    }
    for topic_partition, error in sorted(errors.items()):
        print(
            f"odradek: {plan.group}: {topic_partition}: {client.format_kafka_error(error)}",
            file=sys.stderr,
        )
    committed = {
        topic_partition: offset
        for topic_partition, offset in plan.offsets.items()
        if topic_partition not in errors
    }
    return replace(plan, offsets=committed)


def _show(plans: list[ResetPlan], arguments: argparse.Namespace) -> None:
    if not any(plan.offsets for plan in plans):
        return
    if arguments.export:
        exported = [(plan.group, plan.offsets) for plan in plans]
        reset_file.write_plans(exported, with_group=len(arguments.groups) != 1)
    else:
        rows = [
            (plan.group, *topic_partition, plan.committed.get(topic_partition), offset)
            for plan in plans
            for topic_partition, offset in sorted(plan.offsets.items())
        ]
        title = "Reset offsets" if arguments.execute else "Offsets to reset"
        tables.show(COLUMNS, rows, title=title, as_json=arguments.json)
    if not arguments.execute and not arguments.dry_run:
        print("odradek: dry run: give --execute to commit these offsets", file=sys.stderr)
