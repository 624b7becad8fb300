"""Loads by members of classic groups: commits, heartbeats, and many sessions beside other load.

A group that commits has one member, with the longest session timeout that Kafka allows.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from broker_conditions import compare_with_background
from broker_targets import Target
from client_drivers import Latency, LoadResult
from group_members import (
    MEMBER_ERROR_CODE_POSITION,
    commit_error_code_position,
    commit_frame,
    form_groups,
    heartbeat_frame,
)
from heartbeat_process import HeartbeatLoad, background_heartbeats
from measurement import MB, Load, LoadOptions, Measurement, measure_load, temporary_topic
from raw_driver import fetch_error_code_position, fetch_frame
from raw_loads import LoadShape, fill_topic, run_produce, run_raw_load_in_process, to_load_result

#: The members are observed for this many session timeouts.
WATCHED_SESSION_TIMEOUTS = 3
#: The amount of data that is fetched while the sessions are observed.
FILLED_MB = 50


def commits(shape: LoadShape) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target) as name, ExitStack() as exit_stack:
            return _run_commits(target, name, shape, options, exit_stack)

    return load


def commits_with_background_heartbeats(shape: LoadShape) -> Load:
    """Commit while the members of other groups send heartbeats."""

    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target) as name, ExitStack() as exit_stack:
            return compare_with_background(
                lambda: _run_commits(target, name, shape, options, exit_stack),
                lambda: background_heartbeats(HeartbeatLoad(address=target.bootstrap)),
            )

    return load


def _run_commits(
    target: Target, name: str, shape: LoadShape, options: LoadOptions, exit_stack: ExitStack
) -> Measurement:
    (group,) = form_groups(target.bootstrap, [f"commits-{time.time_ns()}"], exit_stack)
    commit = commit_frame(
        group.id, name, 0, generation=group.generation, member_id=group.members[0].id
    )
    return measure_load(
        target,
        lambda: run_requests(
            target, commit, commit_error_code_position(name), shape, options.seconds
        ),
    )


def heartbeats(shape: LoadShape) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        with ExitStack() as exit_stack:
            (group,) = form_groups(target.bootstrap, [f"heartbeats-{time.time_ns()}"], exit_stack)
            heartbeat = heartbeat_frame(group.id, group.generation, group.members[0].id)
            return measure_load(
                target,
                lambda: run_requests(
                    target, heartbeat, MEMBER_ERROR_CODE_POSITION, shape, options.seconds
                ),
            )

    return load


def run_requests(
    target: Target, frame: bytes, error_code_position: int, shape: LoadShape, seconds: float
) -> LoadResult:
    result = run_raw_load_in_process(target, (frame,), error_code_position, shape, seconds)
    return to_load_result(shape, result, records=0)


def sessions(target: Target, options: LoadOptions) -> Measurement:
    """Observe 500 members in 100 groups while other clients produce and fetch at full speed."""
    shape = LoadShape(connections=10)
    members = HeartbeatLoad(address=target.bootstrap)
    seconds = max(options.seconds, WATCHED_SESSION_TIMEOUTS * members.session_timeout_ms / 1000)
    with (
        temporary_topic(target) as name,
        temporary_topic(target) as filled_name,
        ThreadPoolExecutor(1) as executor,
    ):
        batches = LoadShape(1024, 16 * 1024, in_flight=2)
        fill_topic(target, filled_name, batches, FILLED_MB)
        fetch_request = fetch_frame(filled_name, 0, 0, max_bytes=MB)
        with background_heartbeats(members) as heartbeat_result:
            fetch_future = executor.submit(
                run_raw_load_in_process,
                target,
                (fetch_request,),
                fetch_error_code_position(filled_name),
                batches,
                seconds,
            )
            produce = run_produce(target, name, shape, seconds)
            fetch = fetch_future.result()
    latency = Latency.from_samples(heartbeat_result.latencies_ms)
    assert latency is not None
    count = members.groups * members.members_per_group
    return Measurement(
        f"raw sockets, {count} members in {members.groups} groups, {seconds:.0f} s",
        {
            "lost sessions": heartbeat_result.lost_sessions,
            "heartbeats/s": heartbeat_result.heartbeats / seconds,
            "heartbeat p50 ms": latency.p50_ms,
            "heartbeat p99 ms": latency.p99_ms,
            "heartbeat max ms": max(heartbeat_result.latencies_ms),
            "produced/s": produce.requests / produce.seconds if produce.requests else 0.0,
            "fetched/s": fetch.requests / fetch.seconds,
        },
    )
