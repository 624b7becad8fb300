"""A crowd of members that send heartbeats, each in its turn, in a process of its own.

A heartbeat is sent when the last one is answered, however late that is: who must wait long loses
its session, as a client would.  A member has lost it when any heartbeat is refused.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from multiprocessing import get_context
from multiprocessing.connection import Connection

from group_members import MEMBER_ERROR_CODE_POSITION, StableGroup, form_groups, heartbeat_frame
from raw_driver import NO_ERROR, RequestFailed

GROUP_FORMATION_TIMEOUT_S = 60.0
RECEIVE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatLoad:
    address: str
    groups: int = 100
    members_per_group: int = 5
    #: The least that Kafka allows by default.
    session_timeout_ms: int = 6000
    #: A third of what clients do by default.
    interval_s: float = 1.0


@dataclass(slots=True)
class HeartbeatResult:
    """What became of the heartbeats; filled when the crowd has gone."""

    heartbeats: int = 0
    lost_sessions: int = 0
    latencies_ms: list[float] = field(default_factory=list)


@contextmanager
def background_heartbeats(load: HeartbeatLoad) -> Iterator[HeartbeatResult]:
    """From when all groups are stable until the end."""
    result, processes = HeartbeatResult(), get_context("spawn")
    parent_end, child_end = processes.Pipe()
    process = processes.Process(target=_run_heartbeats, args=(load, child_end))
    process.start()
    child_end.close()
    try:
        _receive_result(parent_end)
        yield result
        parent_end.send(None)
        message = _receive_result(parent_end)
        assert message is not None
        result.heartbeats, result.lost_sessions, result.latencies_ms = message
    finally:
        parent_end.close()
        process.terminate()
        process.join()


def _receive_result(pipe: Connection) -> tuple[int, int, list[float]] | None:
    """Raises Refused if the crowd has failed."""
    if not pipe.poll(GROUP_FORMATION_TIMEOUT_S):
        raise RequestFailed("the crowd of members says nothing")
    try:
        message: tuple[int, int, list[float]] | str | None = pipe.recv()
    except EOFError as error:
        raise RequestFailed("the crowd of members has ended") from error
    if isinstance(message, str):
        raise RequestFailed(message)
    return message


def _run_heartbeats(load: HeartbeatLoad, pipe: Connection) -> None:
    """Until anything is said."""
    prefix = f"heartbeats-{time.time_ns()}"
    ids = [f"{prefix}-{number}" for number in range(load.groups)]
    with ExitStack() as exit_stack:
        try:
            groups = form_groups(
                load.address,
                ids,
                exit_stack,
                size=load.members_per_group,
                session_timeout_ms=load.session_timeout_ms,
            )
        except RequestFailed as error:
            pipe.send(str(error))
            return
        pipe.send(None)
        pipe.send(_send_heartbeats(groups, pipe, load.interval_s))


def _send_heartbeats(
    groups: list[StableGroup], pipe: Connection, interval_s: float
) -> tuple[int, int, list[float]]:
    """Heartbeats, members that have lost their sessions, how long each took in ms."""
    heartbeats = {
        member.connection.fileno(): (
            member.connection,
            heartbeat_frame(group.id, group.generation, member.id),
        )
        for group in groups
        for member in group.members
    }
    now = time.perf_counter()
    due = [
        (now + interval_s * index / len(heartbeats), descriptor)
        for index, descriptor in enumerate(heartbeats)
    ]
    heapify(due)
    sent_at: dict[int, float] = {}
    lost_members: set[int] = set()
    latencies_ms: list[float] = []
    with select.epoll() as events:
        for descriptor in heartbeats:
            events.register(descriptor, select.EPOLLIN)
        events.register(pipe.fileno(), select.EPOLLIN)
        while True:
            for descriptor, _ in events.poll(max(0.0, due[0][0] - time.perf_counter())):
                if descriptor == pipe.fileno():
                    return len(latencies_ms), len(lost_members), latencies_ms
                if not _is_successful(heartbeats[descriptor][0].recv(RECEIVE_BYTES)):
                    lost_members.add(descriptor)
                latencies_ms.append((time.perf_counter() - sent_at.pop(descriptor)) * 1000)
            now = time.perf_counter()
            while due[0][0] <= now:
                due_at, descriptor = due[0]
                heapreplace(due, (due_at + interval_s, descriptor))
                if descriptor not in sent_at:
                    sent_at[descriptor] = now
                    connection, heartbeat = heartbeats[descriptor]
                    connection.sendall(heartbeat)


def _is_successful(response: bytes) -> bool:
    """An answer of so few bytes comes in one piece."""
    return (
        response[MEMBER_ERROR_CODE_POSITION : MEMBER_ERROR_CODE_POSITION + len(NO_ERROR)]
        == NO_ERROR
    )
