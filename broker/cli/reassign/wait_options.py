"""Waiting for the end of a reassignment: for how long, and what is said if it is not reached."""

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
    parser.add_argument("--wait", action="store_true", help="until all is moved")
    parser.add_argument(
        "--wait-at-most",
        metavar="SECONDS",
        type=partial(client.parse_seconds, at_most=WAIT_MAX_S),
        help="wait, but no longer than this; what is not moved by then goes on all the same",
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
    """Whether all is moved.  However the waiting ends before, what goes on is told."""
    from asyncio import CancelledError

    continues = _still_running_message(arguments.plan, is_throttled=is_throttled)
    # A program that reads the answer as JSON wants nothing else there.
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
