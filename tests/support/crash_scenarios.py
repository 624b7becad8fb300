"""Short stories of logs, each through one kind of write path, to be interrupted at every call.

``prepare`` makes what they begin with: logs of several segments, most of them synced, with aborted
and open transactions in them.

Owner: the test's thread, or the writer process.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.support.crash_host import COMPACTED, LOGS, PLAIN, ROOMY
from tests.support.crash_workload import Workload
from tests.support.logs import NOW_MS

#: The scenario that consists of opening what ``prepare`` left.
OPENING = "opening"


def prepare(work: Workload) -> None:
    host = work.host
    for number in range(len(LOGS)):
        for epoch in range(3):
            work.leader_epoch = epoch
            work.append(number, count=3)
            work.append_with_sequence(number, 1, count=2)
            work.append_with_sequence(number, 11, is_transactional=True)
            work.append(number, size=200)
            work.end_transaction(number, 11, commit=epoch == 1)
            work.append_with_sequence(number, 12, is_transactional=True)
            work.append(number, size=200)
        host.flush(number)
    host.checkpoint()
    for number in range(len(LOGS)):
        work.append_with_sequence(number, 2, count=3)
        work.append_with_sequence(number, 11, is_transactional=True)
        work.append_with_sequence(number, 1)


def appending(work: Workload) -> None:
    for number in (PLAIN, ROOMY):
        work.append(number, count=2, size=100)
        work.append_with_sequence(number, 1, count=2)
        work.append_with_sequence(number, 11, is_transactional=True)
        work.end_transaction(number, 11, commit=False)
        work.leader_epoch += 1
        work.append(number, size=200)
        work.append_with_sequence(number, 1)
        work.end_transaction(number, 12, commit=True)


def rolling(work: Workload) -> None:
    for number in (PLAIN, ROOMY):
        work.append_with_sequence(number, 1)
        work.host.roll(number)
        work.append_with_sequence(number, 2)
        work.host.roll(number)
        work.host.roll(number)
    for _ in range(4):
        work.append_with_sequence(PLAIN, 2, count=2, size=200)


def following(work: Workload) -> None:
    """With gaps, over which segments are rolled."""
    host = work.host
    for _ in range(3):
        work.append(PLAIN, base_offset=host.log(PLAIN).end_offset + 5, size=300)
    host.roll(PLAIN)
    work.append(PLAIN, base_offset=host.log(PLAIN).end_offset + 5, size=300)
    host.restart(ROOMY, host.log(ROOMY).end_offset)
    work.append(ROOMY, count=4, base_offset=host.log(ROOMY).end_offset - 2)


def syncing(work: Workload) -> None:
    host = work.host
    for number in range(len(LOGS)):
        host.flush(number)
        work.append_with_sequence(number, 1)
        host.roll(number)
    host.checkpoint()
    work.leader_epoch += 1
    work.append(PLAIN)
    host.flush(PLAIN)
    work.append(PLAIN, timestamp=NOW_MS + 50)
    host.flush(PLAIN)
    host.checkpoint()
    host.roll(PLAIN)
    work.append(PLAIN)
    host.flush(PLAIN)
    host.checkpoint()


def truncating(work: Workload) -> None:
    """Below the recovery point, where the new leader's batches then are like the old ones."""
    host = work.host
    for number in (PLAIN, ROOMY):
        log = host.log(number)
        offset = log.segments.first.base_offset + 5
        host.truncate(number, offset)
        work.leader_epoch += 1
        for _ in range(4):
            work.append_with_sequence(number, 1, count=2)
            work.append(number, size=200)
        host.flush(number)
        host.checkpoint()
        host.truncate(number, log.end_offset - 1)
        work.leader_epoch += 1
        work.append(number, size=200)


def restarting(work: Workload) -> None:
    host = work.host
    host.restart(PLAIN, host.log(PLAIN).end_offset + 40)
    work.append_with_sequence(PLAIN, 1, count=2)
    host.flush(PLAIN)
    host.checkpoint()
    host.restart(ROOMY, 3)
    work.append_with_sequence(ROOMY, 1, count=2)
    host.remove()


def retaining(work: Workload) -> None:
    host = work.host
    for _ in range(3):
        work.append(PLAIN, count=2, size=200)
    host.retain()
    work.append_with_sequence(PLAIN, 1)
    host.roll(PLAIN)
    host.retain(now_ms=NOW_MS * 2)
    work.append_with_sequence(PLAIN, 1)
    host.remove()
    host.checkpoint()


def deleting_records(work: Workload) -> None:
    host = work.host
    for number in range(len(LOGS)):
        log = host.log(number)
        host.delete_records(number, log.start_offset + 7)
    host.checkpoint()
    host.retain()
    host.checkpoint()
    host.delete_records(PLAIN, host.log(PLAIN).end_offset)
    host.checkpoint()
    host.retain()
    work.append_with_sequence(PLAIN, 1)
    host.remove()


def compacting(work: Workload) -> None:
    host = work.host
    work.end_transaction(COMPACTED, 12, commit=True)
    work.end_transaction(COMPACTED, 11, commit=False)
    host.roll(COMPACTED)
    host.compact()
    work.append_with_sequence(COMPACTED, 1)
    host.remove()
    for _ in range(3):
        work.append_with_sequence(COMPACTED, 2, size=200)
    host.roll(COMPACTED)
    host.compact()
    host.flush(COMPACTED)
    host.checkpoint()


def recreating(work: Workload) -> None:
    host = work.host
    host.recreate(PLAIN)
    work.append(PLAIN)
    host.flush(PLAIN)
    host.checkpoint()
    work.append(PLAIN)
    host.remove()


def closing(work: Workload) -> None:
    work.append(PLAIN, timestamp=NOW_MS + 70)
    work.host.close()


def opening(work: Workload) -> None:
    """What it is about is over when the logs are open."""


SCENARIOS: dict[str, Callable[[Workload], None]] = {
    "appending": appending,
    "rolling": rolling,
    "following": following,
    "syncing": syncing,
    "truncating": truncating,
    "restarting": restarting,
    "retaining": retaining,
    "deleting records": deleting_records,
    "compacting": compacting,
    "recreating": recreating,
    "closing": closing,
    OPENING: opening,
}
