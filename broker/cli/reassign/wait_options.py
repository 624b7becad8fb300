"""Waiting for the end of a reassignment: for how long, and what is said if it is not reached."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial

from odradek.broker.cli import client
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.operated import OperatedCluster
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.plans import ReadPlan
from odradek.broker.cli.reassign.progress import wait_until_moved
from odradek.broker.cli.reassign.throttles import Move

LONGEST_S = 30 * 24 * 3600


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="until all is moved")
    parser.add_argument(
        "--wait-at-most",
        metavar="SECONDS",
        type=partial(client.seconds, at_most=LONGEST_S),
        help="wait, but no longer than this; what is not moved by then goes on all the same",
    )


def is_wanted(arguments: argparse.Namespace) -> bool:
    return arguments.wait or arguments.wait_at_most is not None


async def wait(
    arguments: argparse.Namespace,
    asked: OperatedCluster,
    plan: ReadPlan,
    moves: Mapping[Place, Move],
    *,
    is_throttled: bool,
) -> bool:
    """Whether all is moved.  However the waiting ends before, what goes on is told."""
    from asyncio import CancelledError

    goes_on = _goes_on(arguments.plan, is_throttled=is_throttled)
    # A program that reads the answer as JSON wants nothing else there.
    out = sys.stderr if getattr(arguments, "json", False) else sys.stdout
    try:
        is_moved = await wait_until_moved(
            asked, plan, moves, at_most_s=arguments.wait_at_most, out=out
        )
    except (CancelledError, CommandFailed):
        _complain(goes_on)
        raise
    if not is_moved:
        _complain(f"not all is moved after {arguments.wait_at_most:g} s")
        _complain(goes_on)
    return is_moved


def _goes_on(plan: str, *, is_throttled: bool) -> str:
    verify = f"`odradek reassign verify {'FILE' if plan == '-' else plan}` tells how far it is"
    if not is_throttled:
        return f"what is under way goes on: {verify}"
    return (
        f"what is under way goes on, and so does the throttle: {verify}, and removes the throttle "
        "once all has moved"
    )


def _complain(line: str) -> None:
    print(f"odradek: {line}", file=sys.stderr, flush=True)
