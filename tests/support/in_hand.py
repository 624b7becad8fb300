"""What a running broker has in hand: as it tells itself, and as the system tells of it.

    held = held_by(broker)
    held.tasks["fetches from broker 2"]

Owner: the thread of the test.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek.storage.paths import LogFileType
from tests.support.broker_process import BrokerProcess
from tests.support.group_members import wait_until

TOLD = b"Diagnostics: "
LISTENING = "0A"
SEGMENT_FILES = tuple(each.value for each in LogFileType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """``tasks`` to ``waiting`` are what the broker tells; docs/operations.md says what they are."""

    tasks: Counter[str]
    connections: Counter[str]
    outgoing: Counter[str]
    requests: int
    #: By partition, then by who they are.
    waiting: Mapping[str, Mapping[str, int]]
    #: Sockets by which others came, and those by which it went to others, ZooKeeper among them.
    accepted: int
    connected: int
    #: Open files of segments.
    segment_files: Counter[str]
    #: All other descriptors, but for TCP.
    others: int
    #: Processes that it has started.
    children: int


def held_by(broker: BrokerProcess) -> Held:
    told = _told_by(broker)
    tcp, files, others = _sockets(broker.pid), Counter[str](), 0
    ports = {local for local, state in tcp.values() if state == LISTENING}
    came = [local in ports for local, state in tcp.values() if state != LISTENING]
    for opened in _descriptors(broker.pid):
        if opened.removesuffix(" (deleted)").endswith(SEGMENT_FILES):
            files[opened] += 1
        elif opened not in tcp:
            others += 1
    return Held(
        tasks=Counter(told["tasks"]),
        connections=Counter(told["connections"]),
        outgoing=Counter(told["outgoing"]),
        requests=told["requests"],
        waiting=told["waiting"],
        accepted=came.count(True),
        connected=came.count(False),
        segment_files=files,
        others=others,
        children=len(Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()),
    )


def _told_by(broker: BrokerProcess) -> dict[str, Any]:
    """As of a moment after it is asked."""
    before, lines = broker.log.stat().st_size, []

    def is_told() -> bool:
        with broker.log.open("rb") as log:
            log.seek(before)
            written = log.read().splitlines(keepends=True)
        lines[:] = [each for each in written if TOLD in each and each.endswith(b"\n")]
        return bool(lines)

    broker.send(signal.SIGUSR1)
    wait_until(is_told)
    told: dict[str, Any] = json.loads(lines[-1].partition(TOLD)[2])
    return told


def _descriptors(pid: int) -> Iterator[str]:
    """What each of them is open for."""
    directory = Path(f"/proc/{pid}/fd")
    for number in os.listdir(directory):
        with suppress(FileNotFoundError):  # closed since
            yield os.readlink(directory / number)


def _sockets(pid: int) -> dict[str, tuple[str, str]]:
    """Local port and state of those of TCP, by the names of their descriptors."""
    owned, found = {*_descriptors(pid)}, {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            name = f"socket:[{rest[5]}]"
            if name in owned:
                found[name] = (local.rpartition(":")[2], state)
    return found
