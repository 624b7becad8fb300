"""The verbs of ``odradek groups``; list and delete."""

from __future__ import annotations

import argparse
from functools import partial

from odradek.broker.cli import client, tables
from odradek.broker.cli.examples import examples
from odradek.broker.cli.groups import delete_offsets, description, lookup, reset
from odradek.broker.cli.groups.coordinator_retries import send_with_retries

Commands = argparse._SubParsersAction  # the only name that argparse has for it

COLUMNS = ("group", "type", "state")
STATES = (*lookup.STATES.values(), lookup.REBALANCING, lookup.UNKNOWN)


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "groups",
        help="list, describe, reset and delete consumer groups",
        description="List and describe consumer groups, reset their committed offsets, delete "
        "groups or their offsets.",
        **examples(
            "odradek groups describe billing",
            "odradek groups reset-offsets billing --topic orders --to-earliest --execute",
        ),
    )
    verbs = parser.add_subparsers(title="what to do", metavar="VERB", required=True)
    _add_list(verbs)
    description.add_to(verbs)
    reset.add_to(verbs)
    _add_delete(verbs)
    delete_offsets.add_to(verbs)


def _add_list(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "list",
        help="list groups, their protocol and state",
        description="List consumer groups, by name, with their protocol and their state.",
        **examples(
            "odradek groups list",
            "odradek groups list --state stable --state empty --type consumer",
        ),
    )
    parser.add_argument(
        "--state",
        metavar="STATE",
        type=str.lower,
        choices=[state.lower() for state in STATES],
        action="append",
        help=f"only groups in this state; repeatable: {', '.join(STATES)}.  Rebalancing stands for "
        "the states Assigning and Reconciling of the consumer protocol",
    )
    parser.add_argument(
        "--type",
        metavar="TYPE",
        type=str.lower,
        choices=lookup.TYPES,
        action="append",
        help=f"only groups of this protocol, {' or '.join(lookup.TYPES)}; repeatable",
    )
    tables.add_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(list_groups))


def _add_delete(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "delete",
        help="delete groups without members",
        description="Delete groups and their committed offsets.  A group must have no members.",
        **examples(
            "odradek groups delete billing",
            "odradek groups delete billing shipping --if-exists",
        ),
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--all-groups", action="store_true", help="all groups of the cluster")
    parser.add_argument("--if-exists", action="store_true", help="ignore groups that do not exist")
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(delete))


def list_groups(arguments: argparse.Namespace) -> int:
    groups = lookup.list_groups(client.create_admin_client(arguments), arguments.timeout)
    rows = [
        (group.group_id, lookup.group_type(group), lookup.state(group))
        for group in groups
        if not arguments.state or lookup.state(group).lower() in arguments.state
        if not arguments.type or lookup.group_type(group) in arguments.type
    ]
    tables.show(COLUMNS, rows, title="Groups", as_json=arguments.json)
    return 0


def delete(arguments: argparse.Namespace) -> int:
    admin = client.create_admin_client(arguments)
    groups = lookup.selected_groups(admin, arguments)
    send = partial(admin.delete_consumer_groups, request_timeout=arguments.timeout)
    futures = send_with_retries(send, groups, timeout_s=arguments.timeout)
    ignored_errors = frozenset({"GROUP_ID_NOT_FOUND"} if arguments.if_exists else ())
    return client.report_results(futures, done="deleted", ignored_errors=ignored_errors)
