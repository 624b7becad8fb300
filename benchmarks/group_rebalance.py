"""A rebalance of one large group, as its members live through it.

    the leader joins again          so that the group has to rebalance
    every other sends a heartbeat   until it is told so; then it joins again
    all that have joined sync       the leader with a part for each; then all are done

All frames are written before.  What of it is the clients' own round trips is measured too: a member
makes three, so three times all of the members send a heartbeat and are answered.
"""

from __future__ import annotations

import select
import time
from contextlib import ExitStack
from dataclasses import dataclass

from broker_clients import in_processes
from broker_figures import Figures, Load, Measured, Tools
from broker_raw import OK, RECEIVED_AT_ONCE, STALLED_S, Refused
from broker_sides import Side
from group_members import (
    MEMBER_VERDICT,
    FormedGroup,
    Member,
    form,
    heartbeat_frame,
    join_frame,
    sync_frames,
)

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.header import SIZE

ROUND_TRIPS = 3
REBALANCES = 5
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS.code.to_bytes(2)


@dataclass(frozen=True, slots=True)
class RebalanceShape:
    address: str
    members: int


def rebalance(members: int) -> Load:
    def load(side: Side, _: Tools) -> Measured:
        (figures,) = in_processes(_rebalanced, [RebalanceShape(side.bootstrap, members)])
        return Measured(f"raw sockets, {members} members", figures)

    return load


def _rebalanced(shape: RebalanceShape) -> Figures:
    """The best of some: whatever else runs here only ever makes one slower."""
    with ExitStack() as endings:
        group_id = f"rebalance-{time.time_ns()}"
        (group,) = form(shape.address, [group_id], endings, size=shape.members)
        events = endings.enter_context(select.epoll())
        for member in group.members:
            events.register(member.connection.fileno(), select.EPOLLIN)
        rebalances, round_trips = [], []
        for number in range(REBALANCES):
            generation = group.generation + number
            round_trips.append(_round_trips_s(events, group, generation))
            rebalances.append(_rebalance_s(events, group, generation))
    figures = {"rebalance ms": min(rebalances) * 1000, "round trips ms": min(round_trips) * 1000}
    figures["over ms"] = figures["rebalance ms"] - figures["round trips ms"]
    return figures


def _round_trips_s(events: select.epoll, group: FormedGroup, generation: int) -> float:
    steps = [
        _Steps(each, [heartbeat_frame(group.id, generation, each.id)] * ROUND_TRIPS)
        for each in group.members
    ]
    return _gone_through_s(events, steps)


def _rebalance_s(events: select.epoll, group: FormedGroup, generation: int) -> float:
    ids = [each.id for each in group.members]
    syncs = sync_frames(group.id, generation + 1, ids)
    steps = []
    for place, (member, sync) in enumerate(zip(group.members, syncs, strict=True)):
        rejoin = [join_frame(group.id, member.id), sync]
        beat = heartbeat_frame(group.id, generation, member.id)
        steps.append(_Steps(member, rejoin if place == 0 else [beat, *rejoin], waits=place > 0))
    return _gone_through_s(events, steps)


def _gone_through_s(events: select.epoll, all_steps: list[_Steps]) -> float:
    """From the first request to the last answer."""
    by_descriptor = {each.connection.fileno(): each for each in all_steps}
    left, started = len(all_steps), time.perf_counter()
    for each in all_steps:
        each.send()
    while left:
        ready = events.poll(STALLED_S)
        if not ready:
            raise Refused(f"{left} members are not answered")
        left -= sum(by_descriptor[descriptor].receive() for descriptor, _ in ready)
    return time.perf_counter() - started


class _Steps:
    """What one member sends, each when the last is answered."""

    def __init__(self, member: Member, frames: list[bytes], *, waits: bool = False) -> None:
        self.connection = member.connection
        self._frames = frames
        self._place = 0
        #: Whether the first is sent again until it is told of a rebalance.
        self._waits = waits
        self._received = b""

    def send(self) -> None:
        self.connection.sendall(self._frames[self._place])

    def receive(self) -> bool:
        """Whether that was the last answer."""
        chunk = self.connection.recv(RECEIVED_AT_ONCE)
        if not chunk:
            raise Refused("the connection was closed")
        self._received += chunk
        if len(self._received) < SIZE.size + int.from_bytes(self._received[: SIZE.size]):
            return False
        code = self._received[MEMBER_VERDICT : MEMBER_VERDICT + len(OK)]
        self._received = b""
        if self._waits and code == REBALANCING:
            self._waits = False
        elif code != OK:
            raise Refused(f"error code {int.from_bytes(code, signed=True)}")
        if not self._waits:
            self._place += 1
        if self._place == len(self._frames):
            return True
        self.send()
        return False
