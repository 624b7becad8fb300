"""The options for waiting for a reassignment, and the messages when the wait ends early."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial

from odradek.broker.cli import client
from odradek.broker.cli.cluster_client import ClusterClient
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.plans import ReassignmentPlan
from odradek.broker.cli.reassign.progress import wait_until_moved
from odradek.broker.cli.reassign.throttles import PartitionMove

WAIT_MAX_S = 30 * 24 * 3600


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="wait until all partitions have moved")
    parser.add_argument(
        "--wait-at-most",
        metavar="SECONDS",
        type=partial(client.parse_seconds, at_most=WAIT_MAX_S),
        help="wait, but not longer than this; an unfinished reassignment continues afterwards",
    )


def is_wait_requested(arguments: argparse.Namespace) -> bool:
    return arguments.wait or arguments.wait_at_most is not None


async def wait_for_completion(
    arguments: argparse.Namespace,
    cluster: ClusterClient,
    plan: ReassignmentPlan,
    moves: Mapping[TopicAndPartition, PartitionMove],
    *,
    is_throttled: bool,
) -> bool:
    """Return whether all partitions have moved; otherwise print that the reassignment continues."""
    from asyncio import CancelledError

    continues = _still_running_message(arguments.plan, is_throttled=is_throttled)
    # With --json, standard output has only JSON.
    output = sys.stderr if getattr(arguments, "json", False) else sys.stdout
    try:
        is_moved = await wait_until_moved(
            cluster, plan, moves, timeout_s=arguments.wait_at_most, output=output
        )
    except (CancelledError, CommandFailed):
        _print_error(continues)
        raise
    if not is_moved:
        _print_error(f"not all partitions have moved after {arguments.wait_at_most:g} s")
        _print_error(continues)
    return is_moved


def _still_running_message(plan: str, *, is_throttled: bool) -> str:
    verify = f"`odradek reassign verify {'FILE' if plan == '-' else plan}` shows the progress"
    if not is_throttled:
        return f"the reassignment continues: {verify}"
    return (
        f"the reassignment continues, and the throttle remains: {verify}, and removes the throttle "
        "when all partitions have moved"
    )


def _print_error(line: str) -> None:
    print(f"odradek: {line}", file=sys.stderr, flush=True)
