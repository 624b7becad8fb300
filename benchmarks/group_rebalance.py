"""Measures a rebalance of one large group, as its members see it.

    the leader joins again          which starts a rebalance
    the others send heartbeats      until they get REBALANCE_IN_PROGRESS; then they join again
    all members sync                the leader with an assignment for each; then all are done

All frames are encoded in advance.  The members' round trips alone are measured too: a member makes
three, so all members send a heartbeat and receive its response three times.  "overhead ms" is the
difference.
"""

from __future__ import annotations

import select
import time
from contextlib import ExitStack
from dataclasses import dataclass

from broker_targets import Target
from client_drivers import run_in_processes
from group_members import (
    MEMBER_ERROR_CODE_POSITION,
    Member,
    StableGroup,
    form_groups,
    heartbeat_frame,
    join_frame,
    sync_frames,
)
from measurement import Load, LoadOptions, Measurement, Metrics
from raw_driver import NO_ERROR, RECEIVE_BYTES, STALL_TIMEOUT_S, RequestFailed

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.header import SIZE

ROUND_TRIPS = 3
REBALANCES = 5
REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS.code.to_bytes(2)


@dataclass(frozen=True, slots=True)
class RebalanceLoad:
    address: str
    members: int


def rebalance(members: int) -> Load:
    def load(target: Target, _: LoadOptions) -> Measurement:
        (metrics,) = run_in_processes(
            _measure_rebalances, [RebalanceLoad(target.bootstrap, members)]
        )
        return Measurement(f"raw sockets, {members} members", metrics)

    return load


def _measure_rebalances(load: RebalanceLoad) -> Metrics:
    """Return the best of several: other load on the machine can only make a rebalance slower."""
    with ExitStack() as exit_stack:
        group_id = f"rebalance-{time.time_ns()}"
        (group,) = form_groups(load.address, [group_id], exit_stack, size=load.members)
        events = exit_stack.enter_context(select.epoll())
        for member in group.members:
            events.register(member.connection.fileno(), select.EPOLLIN)
        rebalances, round_trips = [], []
        for number in range(REBALANCES):
            generation = group.generation + number
            round_trips.append(_measure_round_trips_s(events, group, generation))
            rebalances.append(_measure_rebalance_s(events, group, generation))
    metrics = {"rebalance ms": min(rebalances) * 1000, "round trips ms": min(round_trips) * 1000}
    metrics["overhead ms"] = metrics["rebalance ms"] - metrics["round trips ms"]
    return metrics


def _measure_round_trips_s(epoll: select.epoll, group: StableGroup, generation: int) -> float:
    steps = [
        _MemberScript(each, [heartbeat_frame(group.id, generation, each.id)] * ROUND_TRIPS)
        for each in group.members
    ]
    return _run_scripts_s(epoll, steps)


def _measure_rebalance_s(epoll: select.epoll, group: StableGroup, generation: int) -> float:
    ids = [each.id for each in group.members]
    syncs = sync_frames(group.id, generation + 1, ids)
    steps = []
    for index, (member, sync) in enumerate(zip(group.members, syncs, strict=True)):
        rejoin = [join_frame(group.id, member.id), sync]
        heartbeat = heartbeat_frame(group.id, generation, member.id)
        steps.append(
            _MemberScript(
                member,
                rejoin if index == 0 else [heartbeat, *rejoin],
                waits_for_rebalance=index > 0,
            )
        )
    return _run_scripts_s(epoll, steps)


def _run_scripts_s(epoll: select.epoll, scripts: list[_MemberScript]) -> float:
    """Return the time from the first request to the last response."""
    by_descriptor = {each.connection.fileno(): each for each in scripts}
    remaining, started = len(scripts), time.perf_counter()
    for each in scripts:
        each.send()
    while remaining:
        ready = epoll.poll(STALL_TIMEOUT_S)
        if not ready:
            raise RequestFailed(f"{remaining} member(s) received no response")
        remaining -= sum(by_descriptor[descriptor].receive() for descriptor, _ in ready)
    return time.perf_counter() - started


class _MemberScript:
    """The requests of one member; each is sent after the response to the previous one."""

    def __init__(
        self, member: Member, frames: list[bytes], *, waits_for_rebalance: bool = False
    ) -> None:
        self.connection = member.connection
        self._frames = frames
        self._step = 0
        #: Whether the first request is repeated until it returns REBALANCE_IN_PROGRESS.
        self._waits_for_rebalance = waits_for_rebalance
        self._received = b""

    def send(self) -> None:
        self.connection.sendall(self._frames[self._step])

    def receive(self) -> bool:
        """Read from the socket; return whether the last response is complete."""
        chunk = self.connection.recv(RECEIVE_BYTES)
        if not chunk:
            raise RequestFailed("the connection was closed")
        self._received += chunk
        if len(self._received) < SIZE.size + int.from_bytes(self._received[: SIZE.size]):
            return False
        code = self._received[
            MEMBER_ERROR_CODE_POSITION : MEMBER_ERROR_CODE_POSITION + len(NO_ERROR)
        ]
        self._received = b""
        if self._waits_for_rebalance and code == REBALANCE_IN_PROGRESS:
            self._waits_for_rebalance = False
        elif code != NO_ERROR:
            raise RequestFailed(f"error code {int.from_bytes(code, signed=True)}")
        if not self._waits_for_rebalance:
            self._step += 1
        if self._step == len(self._frames):
            return True
        self.send()
        return False
