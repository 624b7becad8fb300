"""Short stories of logs, each through one kind of write path, to be interrupted at every call.

``prepared`` makes what they begin with: logs of several segments, most of them synced, with aborted
and open transactions in them.  The story begins when these have been opened and recovered, except
that of ``opening``, which is about just that.

``points`` are calls that a story must lead through, named as fault_points.py names them.

Owner: the test's thread, or the writer process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.crash_host import COMPACTED, PLAIN, ROOMY, CrashHost
from tests.support.crash_ledger import Ledger
from tests.support.crash_workload import Workload
from tests.support.logs import NOW_MS

#: The leader epoch of a story, above all that were before.
EPOCH = 100


@dataclass(frozen=True)
class Scenario:
    """``logs`` are those that are not empty when it begins."""

    run: Callable[[Workload], None]
    logs: tuple[int, ...]
    points: frozenset[str] = frozenset()

    def prepared(self, root: Path) -> Ledger:
        """Fill the logs and leave them as a crash does; what is known of them."""
        root.mkdir()
        ledger = Ledger()
        host = CrashHost(root, ledger)
        host.open()
        work = Workload(host, "before")
        for number in self.logs:
            fill(work, number)
        host.abandon()
        return ledger


def fill(work: Workload, number: int) -> None:
    host = work.host
    for epoch in range(2):
        work.leader_epoch = epoch
        work.append(number, count=3, timestamp=NOW_MS + 10 * epoch)
        work.append_with_sequence(number, 1, count=2)
        work.append_with_sequence(number, 11, is_transactional=True)
        work.append(number, size=200, timestamp=NOW_MS + 30 - 50 * epoch)
        work.end_transaction(number, 11, commit=epoch == 0)
        work.append_with_sequence(number, 12, is_transactional=True)
        work.append(number, size=200)
        work.append_with_sequence(number, 1, size=200)
    host.flush(number)
    host.checkpoint()
    work.append_with_sequence(number, 2, count=3)
    work.append_with_sequence(number, 11, is_transactional=True)
    work.append_with_sequence(number, 1)


def appending(work: Workload) -> None:
    for _ in range(2):
        work.append(PLAIN, count=2, size=100, timestamp=NOW_MS + 40)
        work.append_with_sequence(PLAIN, 1, count=2, timestamp=NOW_MS + 60)
        work.end_transaction(PLAIN, 11, commit=False)
        work.leader_epoch += 1
        work.append_with_sequence(PLAIN, 11, size=150, timestamp=NOW_MS + 80, is_transactional=True)
    work.end_transaction(PLAIN, 12, commit=True)


def rolling(work: Workload) -> None:
    for number in (PLAIN, ROOMY):
        work.append_with_sequence(number, 1, timestamp=NOW_MS + 90)
        work.host.roll(number)
        work.append_with_sequence(number, 2)
        work.host.roll(number)
        work.host.roll(number)
    for _ in range(3):
        work.append_with_sequence(ROOMY, 2, count=2, size=200)


def following(work: Workload) -> None:
    """With gaps, over which segments are rolled, and from the middle of a batch."""
    host = work.host
    work.append(PLAIN, base_offset=host.log(PLAIN).log_end_offset + 5, size=300)
    host.roll(PLAIN)
    work.append(PLAIN, base_offset=host.log(PLAIN).log_end_offset + 5, size=300)
    host.restart(PLAIN, host.log(PLAIN).log_end_offset + 9)
    work.append(PLAIN, count=4, base_offset=host.log(PLAIN).log_end_offset - 2)


def syncing(work: Workload) -> None:
    host = work.host
    for number in (PLAIN, ROOMY):
        host.flush(number)
        work.append_with_sequence(number, 1)
        host.roll(number)
    host.checkpoint()
    work.leader_epoch += 1
    work.append(PLAIN, timestamp=NOW_MS + 50)
    host.flush(PLAIN)
    host.checkpoint()
    host.roll(PLAIN)
    work.append(PLAIN)
    host.flush(PLAIN)
    host.checkpoint()


def truncating(work: Workload) -> None:
    """Below the recovery point; the new leader's batches are like the old ones."""
    host = work.host
    log = host.log(PLAIN)
    host.truncate(PLAIN, 5)
    work.leader_epoch += 1
    for _ in range(3):
        work.append_with_sequence(PLAIN, 1, count=2)
        work.append(PLAIN, size=200)
    host.flush(PLAIN)
    host.checkpoint()
    host.truncate(PLAIN, log.log_end_offset - 1)
    work.leader_epoch += 1
    work.append(PLAIN, size=200)


def restarting(work: Workload) -> None:
    host = work.host
    host.restart(PLAIN, host.log(PLAIN).log_end_offset + 40)
    work.append_with_sequence(PLAIN, 1, count=2)
    host.flush(PLAIN)
    host.checkpoint()
    host.restart(PLAIN, 3)
    work.append_with_sequence(PLAIN, 1, count=2)


def retaining(work: Workload) -> None:
    """By size first; then all is too old, the active segment too."""
    host = work.host
    for _ in range(3):
        work.append(PLAIN, count=3, size=300)
    host.retain()
    work.append_with_sequence(PLAIN, 1)
    host.retain(now_ms=NOW_MS * 2)
    work.append_with_sequence(PLAIN, 1)
    host.remove()
    host.checkpoint()


def deleting_records(work: Workload) -> None:
    host = work.host
    host.delete_records(PLAIN, host.log(PLAIN).log_start_offset + 11)
    host.checkpoint()
    host.retain()
    host.checkpoint()
    host.delete_records(PLAIN, host.log(PLAIN).log_end_offset)
    host.checkpoint()
    host.retain()
    work.append_with_sequence(PLAIN, 1)


def compacting(work: Workload) -> None:
    host = work.host
    work.end_transaction(COMPACTED, 12, commit=True)
    work.end_transaction(COMPACTED, 11, commit=False)
    host.roll(COMPACTED)
    host.compact()
    work.append_with_sequence(COMPACTED, 1)
    host.remove()
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
    for number in (PLAIN, ROOMY):
        work.append(number, timestamp=NOW_MS + 70)
    work.host.close()


def opening(work: Workload) -> None:
    """What it is about is over when the logs are open."""


def replaced(name: str) -> frozenset[str]:
    """The calls of files.replace."""
    temporary = f"{name}.tmp"
    return frozenset(f"{call} {temporary}" for call in ("open", "pwritev", "fsync", "rename"))


CHECKPOINTS = replaced("recovery-point-offset-checkpoint")

SCENARIOS = {
    "appending": Scenario(
        appending,
        (PLAIN,),
        frozenset(
            {"pwritev .log", "fallocate .index", "fallocate .timeindex", "pwritev .txnindex"}
        ),
    ),
    "rolling": Scenario(
        rolling,
        (PLAIN, ROOMY),
        frozenset({"ftruncate .index", "ftruncate .log", "pwritev .snapshot", "open .log"}),
    ),
    "following": Scenario(following, (PLAIN,), frozenset({"rename .log"})),
    "syncing": Scenario(
        syncing,
        (PLAIN, ROOMY),
        CHECKPOINTS
        | replaced("leader-epoch-checkpoint")
        | {"fsync .log", "fsync .index", "fsync .timeindex", "fsync .snapshot"},
    ),
    "truncating": Scenario(
        truncating,
        (PLAIN,),
        CHECKPOINTS | {"ftruncate .log", "fsync .log", "rename .log", "rename .txnindex"},
    ),
    "restarting": Scenario(restarting, (PLAIN,), frozenset({"rename .log", "unlink .snapshot"})),
    "retaining": Scenario(
        retaining, (PLAIN,), frozenset({"rename .log", "rename .snapshot", "unlink .log.deleted"})
    ),
    "deleting records": Scenario(
        deleting_records, (PLAIN,), replaced("log-start-offset-checkpoint")
    ),
    "compacting": Scenario(
        compacting,
        (COMPACTED,),
        replaced("cleaner-offset-checkpoint")
        | {"pwritev .log.cleaned", "fsync .log.cleaned", "rename .log.cleaned"}
        | {"rename .index.cleaned", "rename .log", "rename .log.swap", "rename .index.swap"},
    ),
    "recreating": Scenario(
        recreating, (PLAIN,), CHECKPOINTS | {"rename plain", "pwritev partition.metadata"}
    ),
    "closing": Scenario(closing, (PLAIN, ROOMY), CHECKPOINTS | replaced(".kafka_cleanshutdown")),
    "opening": Scenario(
        opening, (PLAIN, COMPACTED), frozenset({"ftruncate .index", "unlink .txnindex"})
    ),
}
