"""A process with many group members that send heartbeats, spread over the interval.

A member sends a heartbeat only after the response to the previous one, however late that is.  A
member that waits too long loses its session, as a client would.  Any heartbeat that is rejected
counts as a lost session.
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
    #: The lowest value that Kafka allows by default.
    session_timeout_ms: int = 6000
    #: A third of the default interval of clients.
    interval_s: float = 1.0


@dataclass(slots=True)
class HeartbeatResult:
    """The results of the heartbeats, set when the process has stopped."""

    heartbeats: int = 0
    lost_sessions: int = 0
    latencies_ms: list[float] = field(default_factory=list)


@contextmanager
def background_heartbeats(load: HeartbeatLoad) -> Iterator[HeartbeatResult]:
    """Send heartbeats from the moment when all groups are stable until the end of the context."""
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
    """Receive a message of the process.  Raises RequestFailed if the process has failed."""
    if not pipe.poll(GROUP_FORMATION_TIMEOUT_S):
        raise RequestFailed("no message from the heartbeat process")
    try:
        message: tuple[int, int, list[float]] | str | None = pipe.recv()
    except EOFError as error:
        raise RequestFailed("the heartbeat process has exited") from error
    if isinstance(message, str):
        raise RequestFailed(message)
    return message


def _run_heartbeats(load: HeartbeatLoad, pipe: Connection) -> None:
    """Send heartbeats until a message arrives on the pipe."""
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
    """Return the number of heartbeats, of members with lost sessions, and the latencies in ms."""
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
    """A response this short arrives in one piece."""
    return (
        response[MEMBER_ERROR_CODE_POSITION : MEMBER_ERROR_CODE_POSITION + len(NO_ERROR)]
        == NO_ERROR
    )
