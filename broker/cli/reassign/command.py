"""The verbs of ``odradek reassign``: generate, execute, verify, cancel and list."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

from odradek.broker.cli import client, tables
from odradek.broker.cli.cluster_client import (
    ClusterClient,
    ClusterCommand,
    MetadataSnapshot,
    cluster_command,
    group_by_topic,
)
from odradek.broker.cli.errors import CHECK_FAILED, CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign import log_dirs, plans, reassignments, throttles, wait_options
from odradek.broker.cli.reassign.plans import Plan, ReassignmentPlan
from odradek.broker.cli.reassign.proposal import generate_plan
from odradek.broker.cli.reassign.reassignments import ReassignmentState

Commands = argparse._SubParsersAction  # the only name that argparse has for it

TOOL = "kafka-reassign-partitions"
LIST_COLUMNS = ("topic", "partition", "replicas", "adding", "removing")
VERIFY_COLUMNS = ("topic", "partition", "standing", "wanted")
FAILED = 1
THROTTLE_REMAINS_MESSAGE = (
    "The throttle remains until `odradek reassign verify` finds no ongoing reassignment"
)


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "reassign",
        help="reassign partitions to other brokers",
        description="Reassign partitions to other brokers: generate a plan, execute it, verify "
        f"it.  Plans have the format of {TOOL}.  Needs a listener without TLS and SASL.",
        **examples(
            "odradek reassign generate orders --brokers 1,2,3 > plan.json",
            "odradek reassign execute plan.json --throttle 10000000 --wait",
        ),
    )
    verbs = parser.add_subparsers(title="what to do", metavar="VERB", required=True)
    _add_generate(verbs)
    _add_execute(verbs)
    _add_verify(verbs)
    _add_cancel(verbs)
    _add_list(verbs)


def _add_generate(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "generate",
        help="generate a plan that spreads topics over brokers",
        description="Print a plan that spreads the partitions of topics over brokers, as if the "
        "topics were created there or, with --current, the current assignment for a rollback.",
        **examples(
            "odradek reassign generate orders payments --brokers 1,2,3 > plan.json",
            "odradek reassign generate orders --current > rollback.json",
        ),
    )
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    parser.add_argument(
        "--topics-file",
        "--topics-to-move-json-file",  # the name in Kafka's tool
        metavar="FILE",
        help='read more topics from this file: {"version": 1, "topics": [{"topic": "orders"}]}',
    )
    parser.add_argument(
        "--brokers",
        "--broker-list",
        metavar="ID,ID,...",
        type=_parse_broker_ids,
        default=[],
        help="the brokers to assign the partitions to (all brokers)",
    )
    parser.add_argument(
        "--disable-rack-aware", action="store_true", help="ignore the racks of brokers"
    )
    parser.add_argument("--current", action="store_true", help="print the current assignment")
    _finish_parser(parser, generate)


def _add_execute(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "execute",
        help="start a reassignment",
        description="Start the reassignment of a plan, and print the current assignment as a plan "
        "for a rollback.  With --wait, show the progress until all partitions have moved, then "
        "remove the throttle; otherwise verify removes it.  Exit code "
        f"{CHECK_FAILED}: --wait-at-most ended before all partitions had moved.",
        **examples(
            "odradek reassign execute plan.json",
            "odradek reassign execute plan.json --throttle 10000000 --wait",
        ),
    )
    _add_plan(parser)
    parser.add_argument(
        "--throttle",
        metavar="BYTES",
        type=_parse_rate,
        help="the bytes per second that each broker may send, and fetch, for reassignments",
    )
    parser.add_argument(
        "--additional", action="store_true", help="start although other reassignments are ongoing"
    )
    parser.add_argument(
        "--rollback-file",
        metavar="FILE",
        type=Path,
        help="write the current assignment to this file instead of standard output",
    )
    wait_options.add_options(parser)
    _finish_parser(parser, execute)


def _add_verify(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "verify",
        help="show whether a reassignment is complete, and remove its throttle",
        description="Show the state of each partition of a plan.  If no reassignment is ongoing in "
        f"the cluster, throttles are removed.  Exit code {CHECK_FAILED}: some "
        "partitions have not moved "
        "yet.",
        **examples(
            "odradek reassign verify plan.json",
            "odradek reassign verify plan.json --wait-at-most 600",
        ),
    )
    _add_plan(parser)
    wait_options.add_options(parser)
    _add_preserve(parser)
    tables.add_options(parser)
    _finish_parser(parser, verify)


def _add_cancel(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "cancel",
        help="cancel a reassignment",
        description="Cancel the ongoing reassignments of a plan: the partitions keep their "
        "original replicas.  Throttles are removed.",
        **examples(
            "odradek reassign cancel plan.json",
            "odradek reassign cancel plan.json --preserve-throttles",
        ),
    )
    _add_plan(parser)
    _add_preserve(parser)
    _finish_parser(parser, cancel)


def _add_list(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "list",
        help="list ongoing reassignments",
        description="List the partitions that are being reassigned, with the replicas that are "
        "added and removed.",
        **examples("odradek reassign list", "odradek reassign list --json"),
    )
    tables.add_options(parser)
    _finish_parser(parser, list_reassignments)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="FILE", help="a plan; - is standard input")


def _add_preserve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preserve-throttles", action="store_true", help="keep the throttles")


def _finish_parser(parser: argparse.ArgumentParser, command: ClusterCommand) -> None:
    client.add_options(parser)
    parser.set_defaults(run=cluster_command(command, tool=TOOL))


async def generate(arguments: argparse.Namespace, cluster: ClusterClient) -> int:
    topics = [*arguments.topics]
    if arguments.topics_file is not None:
        topics += plans.read_topics(arguments.topics_file)
    if not topics:
        raise CommandFailed("no topics: name some, or give --topics-file")
    snapshot = await cluster.fetch_metadata(topics)
    if arguments.current:
        print(plans.format_plan(_current_assignment(snapshot)))
        return 0
    brokers = arguments.brokers or sorted(snapshot.brokers)
    is_rack_aware = not arguments.disable_rack_aware
    print(
        plans.format_plan(
            generate_plan(snapshot, brokers, is_rack_aware=is_rack_aware, random=Random())
        )
    )
    return 0


async def execute(arguments: argparse.Namespace, cluster: ClusterClient) -> int:
    plan = plans.read_plan(arguments.plan)
    current = _current_assignment(await cluster.fetch_metadata(group_by_topic(plan.replicas)))
    _check_partitions_exist(plan, current)
    ongoing = await reassignments.list_reassignments(cluster)
    if ongoing and not arguments.additional:
        partition = next(iter(ongoing))
        raise CommandFailed(
            f"{partition}: a reassignment is ongoing: give --additional, or wait for its end"
        )
    _print_rollback(
        {partition: current[partition] for partition in plan.replicas}, arguments.rollback_file
    )
    moves = throttles.calculate_moves(plan.replicas, current, ongoing)
    is_throttled = arguments.throttle is not None
    if is_throttled:
        throttled = await throttles.apply_throttles(cluster, moves, arguments.throttle)
        print(
            f"Set the throttle of brokers {_comma_separated(throttled)} to "
            f"{arguments.throttle} bytes/s"
        )
    try:
        failed = await _start_reassignments(cluster, plan)
    except CommandFailed:
        if is_throttled:  # the reassignment may have started nevertheless
            print(f"odradek: {THROTTLE_REMAINS_MESSAGE}", file=sys.stderr)
        raise
    started = ReassignmentPlan(
        {partition: to for partition, to in plan.replicas.items() if partition not in failed},
        {at: to for at, to in plan.log_dirs.items() if at.topic_partition not in failed},
    )
    print(f"Started the reassignment of {len(started.replicas)} partition(s)")
    waits = wait_options.is_wait_requested(arguments) and started.replicas
    if waits and not await wait_options.wait_for_completion(
        arguments, cluster, started, moves, is_throttled=is_throttled
    ):
        return CHECK_FAILED
    if (
        is_throttled
        and (waits or not started.replicas)
        and not await reassignments.list_reassignments(cluster)
    ):
        await _remove_throttles(cluster, plan)
    elif is_throttled:
        print(THROTTLE_REMAINS_MESSAGE)
    return FAILED if failed else 0


async def _start_reassignments(
    cluster: ClusterClient, plan: ReassignmentPlan
) -> set[TopicAndPartition]:
    """Return the partitions that failed.

    The log directories are set first: a broker creates a new replica in the directory set for it.
    """
    log_dir_errors = await log_dirs.alter_replica_log_dirs(cluster, plan.log_dirs)
    _print_errors(
        {
            f"{at.topic_partition} at broker {at.broker_id}": error
            for at, error in log_dir_errors.items()
        }
    )
    failed = {at.topic_partition for at in log_dir_errors}
    targets = {partition: to for partition, to in plan.replicas.items() if partition not in failed}
    errors = await reassignments.alter_reassignments(cluster, targets) if targets else {}
    _print_errors({str(partition): error for partition, error in errors.items()})
    return failed.union(errors)


async def verify(arguments: argparse.Namespace, cluster: ClusterClient) -> int:
    plan = plans.read_plan(arguments.plan)
    if wait_options.is_wait_requested(arguments):
        remaining = await _remaining_moves(cluster, plan)
        throttled = await throttles.throttled_topics(cluster, group_by_topic(plan.replicas))
        await wait_options.wait_for_completion(
            arguments, cluster, plan, remaining, is_throttled=bool(throttled)
        )
    states = await reassignments.reassignment_states(cluster, plan)
    rows = [
        (*partition, states[partition].value, list(replicas))
        for partition, replicas in sorted(plan.replicas.items())
    ]
    tables.show(VERIFY_COLUMNS, rows, title="Reassignment", as_json=arguments.json)
    if not await reassignments.list_reassignments(cluster) and not arguments.preserve_throttles:
        topics = await _existing_topics(cluster, plan)
        throttled = await throttles.throttled_topics(cluster, topics)
        await throttles.remove_throttles(cluster, topics)
        if throttled:
            print(
                _throttle_removed_message(throttled),
                file=sys.stderr if arguments.json else sys.stdout,
            )
    return 0 if all(state is ReassignmentState.MOVED for state in states.values()) else CHECK_FAILED


async def cancel(arguments: argparse.Namespace, cluster: ClusterClient) -> int:
    plan = plans.read_plan(arguments.plan)
    ongoing = await reassignments.list_reassignments(cluster)
    to_cancel = [partition for partition in plan.replicas if partition in ongoing]
    errors = (
        await reassignments.alter_reassignments(cluster, dict.fromkeys(to_cancel))
        if to_cancel
        else {}
    )
    _print_errors({str(partition): error for partition, error in errors.items()})
    print(f"Cancelled the reassignment of {len(to_cancel) - len(errors)} partition(s)")
    if not arguments.preserve_throttles:
        await _remove_throttles(cluster, plan)
    return FAILED if errors else 0


async def list_reassignments(arguments: argparse.Namespace, cluster: ClusterClient) -> int:
    rows = [
        (*partition, list(each.replicas), list(each.adding_replicas), list(each.removing_replicas))
        for partition, each in sorted((await reassignments.list_reassignments(cluster)).items())
    ]
    tables.show(LIST_COLUMNS, rows, title="Reassignments", as_json=arguments.json)
    return 0


def _current_assignment(snapshot: MetadataSnapshot) -> Plan:
    return {partition: each.replicas for partition, each in snapshot.partitions.items()}


async def _remaining_moves(
    cluster: ClusterClient, plan: ReassignmentPlan
) -> dict[TopicAndPartition, throttles.PartitionMove]:
    current = _current_assignment(await cluster.fetch_metadata(group_by_topic(plan.replicas)))
    _check_partitions_exist(plan, current)
    return throttles.calculate_moves(
        plan.replicas, current, await reassignments.list_reassignments(cluster)
    )


async def _existing_topics(cluster: ClusterClient, plan: ReassignmentPlan) -> set[str]:
    """Return the topics of the plan that exist; a deleted topic has no throttle."""
    existing = {partition.topic for partition in (await cluster.fetch_metadata()).partitions}
    return existing.intersection(group_by_topic(plan.replicas))


async def _remove_throttles(cluster: ClusterClient, plan: ReassignmentPlan) -> None:
    topics = await _existing_topics(cluster, plan)
    await throttles.remove_throttles(cluster, topics)
    print(_throttle_removed_message(sorted(topics)))


def _throttle_removed_message(topics: Iterable[str]) -> str:
    return f"Removed the throttles of all brokers and of topics {_comma_separated(topics)}"


def _check_partitions_exist(plan: ReassignmentPlan, current: Plan) -> None:
    for partition in plan.replicas:
        if partition not in current:
            raise CommandFailed(f"{partition}: there is no such partition")


def _print_rollback(current: Plan, path: Path | None) -> None:
    if path is None:
        print("Current assignment, for a rollback:")
        print(plans.format_plan(current))
        return
    try:
        path.write_text(plans.format_plan(current) + "\n")
    except OSError as error:
        raise CommandFailed(f"--rollback-file {path}: {error.strerror}") from error


def _print_errors(errors: Mapping[str, str]) -> None:
    for subject, error in errors.items():
        print(f"odradek: {subject}: {error}", file=sys.stderr)


def _comma_separated(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


def _parse_broker_ids(argument: str) -> list[int]:
    """Parse a command-line argument."""
    ids = [each.strip() for each in argument.split(",")]
    if not all(each.isdecimal() for each in ids) or len(set(ids)) < len(ids):
        raise argparse.ArgumentTypeError(f"{argument!r} is not a list of distinct broker ids")
    return [*map(int, ids)]


def _parse_rate(argument: str) -> int:
    """Parse a command-line argument."""
    if not argument.isdecimal() or not int(argument):
        raise argparse.ArgumentTypeError(f"{argument!r} is not a positive number of bytes/s")
    return int(argument)
