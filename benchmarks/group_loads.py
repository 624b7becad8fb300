"""Loads of members of classic groups: commits, heartbeats, and many sessions beside other work.

A group that commits has one member, whose session is as long as can be.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from broker_clients import Latency, Served
from broker_conditions import compared
from broker_figures import MB, Load, Measured, Tools, costed, topic
from broker_raw import fetch_frame, fetch_verdict
from broker_raw_loads import Shape, driven, fill, produced, served
from broker_sides import Side
from group_crowd import CrowdShape, crowd
from group_members import (
    MEMBER_VERDICT,
    commit_frame,
    commit_verdict,
    form,
    heartbeat_frame,
)

#: Of a session that nobody keeps alive, so many would have ended while the members are watched.
SESSIONS_WATCHED = 3
#: What is fetched while sessions are watched.
FILLED_MB = 50


def commits(shape: Shape) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        with topic(side) as name, ExitStack() as endings:
            return _committed(side, name, shape, tools, endings)

    return load


def commits_in_a_crowd(shape: Shape) -> Load:
    """Beside members of other groups, who send heartbeats."""

    def load(side: Side, tools: Tools) -> Measured:
        with topic(side) as name, ExitStack() as endings:
            return compared(
                lambda: _committed(side, name, shape, tools, endings),
                lambda: crowd(CrowdShape(address=side.bootstrap)),
            )

    return load


def _committed(side: Side, name: str, shape: Shape, tools: Tools, endings: ExitStack) -> Measured:
    (group,) = form(side.bootstrap, [f"commits-{time.time_ns()}"], endings)
    committing = commit_frame(
        group.id, name, 0, generation=group.generation, member_id=group.members[0].id
    )
    return costed(
        side, lambda: answered(side, committing, commit_verdict(name), shape, tools.seconds)
    )


def heartbeats(shape: Shape) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        with ExitStack() as endings:
            (group,) = form(side.bootstrap, [f"heartbeats-{time.time_ns()}"], endings)
            beat = heartbeat_frame(group.id, group.generation, group.members[0].id)
            return costed(side, lambda: answered(side, beat, MEMBER_VERDICT, shape, tools.seconds))

    return load


def answered(side: Side, asked: bytes, verdict_position: int, shape: Shape, s: float) -> Served:
    outcome = driven(side, (asked,), verdict_position, shape, s)
    return served(shape, outcome, records=0)


def sessions(side: Side, tools: Tools) -> Measured:
    """Of 500 members in 100 groups, beside producing and fetching at full speed."""
    shape = Shape(connections=10)
    members = CrowdShape(address=side.bootstrap)
    seconds = max(tools.seconds, SESSIONS_WATCHED * members.session_ms / 1000)
    with topic(side) as name, topic(side) as filled_name, ThreadPoolExecutor(1) as aside:
        batches = Shape(1024, 16 * 1024, in_flight=2)
        fill(side, filled_name, batches, FILLED_MB)
        fetching = fetch_frame(filled_name, 0, 0, max_bytes=MB)
        with crowd(members) as heard:
            fetched = aside.submit(
                driven, side, (fetching,), fetch_verdict(filled_name), batches, seconds
            )
            produce = produced(side, name, shape, seconds)
            fetch = fetched.result()
    latency = Latency.of(heard.latencies_ms)
    assert latency is not None
    count = members.groups * members.members_of_each
    return Measured(
        f"raw sockets, {count} members in {members.groups} groups, {seconds:.0f} s",
        {
            "lost": heard.lost,
            "heartbeats/s": heard.heartbeats / seconds,
            "heartbeat p50 ms": latency.p50_ms,
            "heartbeat p99 ms": latency.p99_ms,
            "worst ms": max(heard.latencies_ms),
            "produced/s": produce.requests / produce.seconds if produce.requests else 0.0,
            "fetched/s": fetch.requests / fetch.seconds,
        },
    )
