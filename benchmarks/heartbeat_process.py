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

from broker_raw import OK, Refused
from group_members import MEMBER_VERDICT, FormedGroup, form, heartbeat_frame

FORMING_TIMEOUT_S = 60.0
RECEIVED_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdShape:
    address: str
    groups: int = 100
    members_of_each: int = 5
    #: The least that Kafka allows by default.
    session_ms: int = 6000
    #: A third of what clients do by default.
    interval_s: float = 1.0


@dataclass(slots=True)
class Heard:
    """What became of the heartbeats; filled when the crowd has gone."""

    heartbeats: int = 0
    lost: int = 0
    latencies_ms: list[float] = field(default_factory=list)


@contextmanager
def crowd(shape: CrowdShape) -> Iterator[Heard]:
    """From when all groups are stable until the end."""
    heard, processes = Heard(), get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_keep_alive, args=(shape, theirs))
    process.start()
    theirs.close()
    try:
        _told(ours)
        yield heard
        ours.send(None)
        told = _told(ours)
        assert told is not None
        heard.heartbeats, heard.lost, heard.latencies_ms = told
    finally:
        ours.close()
        process.terminate()
        process.join()


def _told(pipe: Connection) -> tuple[int, int, list[float]] | None:
    """Raises Refused if the crowd has failed."""
    if not pipe.poll(FORMING_TIMEOUT_S):
        raise Refused("the crowd of members says nothing")
    try:
        told: tuple[int, int, list[float]] | str | None = pipe.recv()
    except EOFError as ended:
        raise Refused("the crowd of members has ended") from ended
    if isinstance(told, str):
        raise Refused(told)
    return told


def _keep_alive(shape: CrowdShape, pipe: Connection) -> None:
    """Until anything is said."""
    prefix = f"crowd-{time.time_ns()}"
    ids = [f"{prefix}-{number}" for number in range(shape.groups)]
    with ExitStack() as endings:
        try:
            groups = form(
                shape.address,
                ids,
                endings,
                size=shape.members_of_each,
                session_ms=shape.session_ms,
            )
        except Refused as failure:
            pipe.send(str(failure))
            return
        pipe.send(None)
        pipe.send(_beat(groups, pipe, shape.interval_s))


def _beat(
    groups: list[FormedGroup], pipe: Connection, interval_s: float
) -> tuple[int, int, list[float]]:
    """Heartbeats, members that have lost their sessions, how long each took in ms."""
    beats = {
        member.connection.fileno(): (
            member.connection,
            heartbeat_frame(group.id, group.generation, member.id),
        )
        for group in groups
        for member in group.members
    }
    now = time.perf_counter()
    due = [
        (now + interval_s * place / len(beats), descriptor)
        for place, descriptor in enumerate(beats)
    ]
    heapify(due)
    sent_at: dict[int, float] = {}
    lost: set[int] = set()
    latencies_ms: list[float] = []
    with select.epoll() as events:
        for descriptor in beats:
            events.register(descriptor, select.EPOLLIN)
        events.register(pipe.fileno(), select.EPOLLIN)
        while True:
            for descriptor, _ in events.poll(max(0.0, due[0][0] - time.perf_counter())):
                if descriptor == pipe.fileno():
                    return len(latencies_ms), len(lost), latencies_ms
                if not _is_alive(beats[descriptor][0].recv(RECEIVED_AT_ONCE)):
                    lost.add(descriptor)
                latencies_ms.append((time.perf_counter() - sent_at.pop(descriptor)) * 1000)
            now = time.perf_counter()
            while due[0][0] <= now:
                at, descriptor = due[0]
                heapreplace(due, (at + interval_s, descriptor))
                if descriptor not in sent_at:
                    sent_at[descriptor] = now
                    connection, heartbeat = beats[descriptor]
                    connection.sendall(heartbeat)


def _is_alive(answer: bytes) -> bool:
    """An answer of so few bytes comes in one piece."""
    return answer[MEMBER_VERDICT : MEMBER_VERDICT + len(OK)] == OK
