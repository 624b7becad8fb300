"""``odradek groups describe``: show the lag, the members or the state of groups.

Lag is the log end offset minus the committed offset.  There is no lag without a committed offset,
and none for a partition that does not exist or has no leader: its log end offset is unknown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.broker.cli import client, partitions, tables
from odradek.broker.cli.examples import examples
from odradek.broker.cli.groups import lookup
from odradek.broker.cli.partitions import Offsets, TopicAndPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import (
        AdminClient,
        ConsumerGroupDescription,
        MemberAssignment,
        MemberDescription,
    )

OFFSET_COLUMNS = (
    *("group", "topic", "partition", "committed", "end", "lag"),
    *("member", "host", "client"),
)
MEMBER_COLUMNS = (
    *("group", "member", "instance", "host", "client", "partitions", "assignment", "target"),
)
STATE_COLUMNS = ("group", "type", "state", "assignor", "members", "coordinator", "address")


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "describe",
        help="show committed offsets and lag, or members, or the state",
        description="Show the committed offset, the log end offset and the lag of each partition "
        "for which the group has a committed offset or a member has an assignment.",
        **examples(
            "odradek groups describe billing",
            "odradek groups describe billing --members --json",
        ),
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="the groups (all groups)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--offsets", action="store_true", help="show offsets and lag (the default)")
    shown.add_argument(
        "--members",
        action="store_true",
        help="show the members and their assignments; target is the target assignment of a member "
        "in a group of the consumer protocol",
    )
    shown.add_argument(
        "--state", action="store_true", help="show state, assignor, members and the coordinator"
    )
    tables.add_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(describe))


def describe(arguments: argparse.Namespace) -> int:
    admin = client.create_admin_client(arguments)
    named = sorted(set(arguments.groups))
    names = named or [group.group_id for group in lookup.list_groups(admin, arguments.timeout)]
    descriptions = lookup.describe_groups(admin, names, arguments.timeout)
    groups = [group for group in descriptions.values() if group is not None]
    missing = [name for name, group in descriptions.items() if group is None and name in named]
    for name in missing:
        print(f"odradek: {name}: there is no such group", file=sys.stderr)
    if groups or not named:
        _show(admin, groups, arguments)
    for group in groups if named else []:
        _warn_unless_stable(group)
    return 1 if missing else 0


def _show(
    admin: AdminClient, groups: list[ConsumerGroupDescription], arguments: argparse.Namespace
) -> None:
    if arguments.members:
        rows = [_member_row(group, member) for group in groups for member in group.members]
        tables.show(MEMBER_COLUMNS, rows, title="Members", as_json=arguments.json)
    elif arguments.state:
        rows = [_state_row(group) for group in groups]
        tables.show(STATE_COLUMNS, rows, title="Groups", as_json=arguments.json)
    else:
        rows = list(_offset_rows(admin, groups, arguments.timeout))
        tables.show(OFFSET_COLUMNS, rows, title="Offsets", as_json=arguments.json)


def _warn_unless_stable(group: ConsumerGroupDescription) -> None:
    """Explain why members, or their assignments, are missing in the output."""
    state = lookup.state(group)
    if state == lookup.EMPTY:
        print(f"odradek: {group.group_id} has no members", file=sys.stderr)
    elif state != lookup.STABLE:
        print(f"odradek: {group.group_id} is rebalancing ({state})", file=sys.stderr)


def _offset_rows(
    admin: AdminClient, groups: list[ConsumerGroupDescription], timeout_s: float
) -> Iterator[tables.Row]:
    committed = lookup.committed_offsets(admin, [group.group_id for group in groups], timeout_s)
    members = {group.group_id: _assigned_members(group) for group in groups}
    topic_partitions = {
        group: sorted(committed[group].keys() | members[group].keys()) for group in members
    }
    ends = partitions.known_log_end_offsets(
        admin, set().union(*topic_partitions.values()), timeout_s
    )
    for group in members:
        for topic_partition in topic_partitions[group]:
            member = members[group].get(topic_partition)
            yield (
                *(group, *topic_partition),
                *_offsets_and_lag(topic_partition, committed[group], ends),
                *((member.member_id, member.host, member.client_id) if member else [None] * 3),
            )


def _offsets_and_lag(
    topic_partition: TopicAndPartition, committed: Offsets, log_end_offsets: Offsets
) -> tables.Row:
    """Return the committed offset, the log end offset and the lag."""
    offset, end = committed.get(topic_partition), log_end_offsets.get(topic_partition)
    return offset, end, None if offset is None or end is None else end - offset


def _assigned_members(
    group: ConsumerGroupDescription,
) -> dict[TopicAndPartition, MemberDescription]:
    return {
        topic_partition: member
        for member in group.members
        for topic_partition in _assigned_partitions(member.assignment)
    }


def _member_row(group: ConsumerGroupDescription, member: MemberDescription) -> tables.Row:
    assignment = _assigned_partitions(member.assignment)
    target = member.target_assignment
    return (
        *(group.group_id, member.member_id, member.group_instance_id),
        *(member.host, member.client_id, len(assignment)),
        [str(each) for each in assignment],
        None if target is None else [str(each) for each in _assigned_partitions(target)],
    )


def _assigned_partitions(assignment: MemberAssignment) -> list[TopicAndPartition]:
    return sorted(
        TopicAndPartition(each.topic, each.partition) for each in assignment.topic_partitions or []
    )


def _state_row(group: ConsumerGroupDescription) -> tables.Row:
    coordinator = group.coordinator
    return (
        *(group.group_id, lookup.group_type(group), lookup.state(group)),
        *(group.partition_assignor or None, len(group.members)),
        *(coordinator.id, f"{coordinator.host}:{coordinator.port}"),
    )
