"""What was flushed survives a power cut; what was not may vanish, but never half-appears.

Flushed is what lies before a recovery point that has been checkpointed.  After a cut at any change
of any scenario, and in the middle of random work, and again while the logs recover, every batch
that is found is one that was appended at its offset and not cut off since; no offset that was
flushed is given to another record; and whatever is derived from the batches agrees with them:
indexes, time indexes, aborted transactions, producers, leader epochs.
"""

import shutil
from copy import deepcopy
from itertools import product
from random import Random

import pytest

from odradek.storage.paths import LogFileType
from odradek.storage.retention import apply_retention
from tests.support.crash_host import COMPACTED, PLAIN, ROOMY, CrashHost
from tests.support.crash_ledger import Crash, Ledger, LogLedger
from tests.support.crash_rounds import SEED, TIMES, copied, seeds, told
from tests.support.crash_scenarios import EPOCH, SCENARIOS
from tests.support.crash_workload import Workload
from tests.support.log_model import LogModel
from tests.support.logs import NOW_MS, append, opened, recovered
from tests.support.power_cut import PowerCut, PowerIsOff
from tests.support.power_cut_lots import Lots

#: Of the changes of a scenario so many are passed over; another seed takes others.
STRIDE = max(1, 5 // TIMES)


def work_until_cut(root, ledger, story, *, seed, off_at=None, leader_epoch=EPOCH):
    """Open, check what was left by the cut before, go on, and cut; how many changes there were."""
    with PowerCut(root, seed, off_at=off_at) as disk, told(f"{disk!r} {story}"):
        host = CrashHost(root, ledger)
        opened_at = None
        try:
            host.open()
            opened_at = disk.changes
            ledger.check(host, Crash.POWER_CUT)
            story(Workload(host, f"{seed}", leader_epoch=leader_epoch))
        except PowerIsOff:
            host.notes.on_warning("the power is off")
        changes = disk.changes
        host.abandon()
        disk.cut()
    return opened_at, changes


def check_reopened(root, ledger, *, seed):
    with PowerCut(root, seed) as disk, told(disk):
        host = CrashHost(root, ledger)
        host.open()
        ledger.check(host, Crash.POWER_CUT)
        host.abandon()


def nothing(work):
    """Opening is all."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_cut_at_any_change_takes_nothing_that_was_flushed(tmp_path, name):
    scenario, prepared, root = SCENARIOS[name], tmp_path / "prepared", tmp_path / "logs"
    known = scenario.prepared(prepared)
    copied(prepared, root)
    opened_at, changes = work_until_cut(root, deepcopy(known), scenario.run, seed=SEED)
    first = 1 if name == "opening" else opened_at + 1
    for off_at in range(first + SEED % STRIDE, changes + 2, STRIDE):
        random, ledger = Random(f"{SEED} {off_at}"), deepcopy(known)
        copied(prepared, root)
        with told(f"{name}, off at {off_at}"):
            work_until_cut(root, ledger, scenario.run, seed=off_at, off_at=off_at)
            if random.random() < 0.3:
                again = random.randint(1, 60)
                work_until_cut(root, ledger, nothing, seed=off_at + 1, off_at=again)
            check_reopened(root, ledger, seed=off_at)


@pytest.mark.parametrize("seed", seeds(20))
def test_cuts_in_random_work_take_nothing_that_was_flushed(tmp_path, seed):
    random, ledger, root = Random(seed), Ledger(), tmp_path / "logs"
    root.mkdir()
    for number in range(3):
        off_at = random.choice([None, random.randint(1, 300)])
        work_until_cut(
            root,
            ledger,
            lambda work: work.run(40),
            seed=seed * 10 + number,
            off_at=off_at,
            leader_epoch=1000 * number,
        )
    check_reopened(root, ledger, seed=seed)


# What has gone wrong once: stories of one or more sessions, with a cut at the end of each.


def flushed(work, number):
    work.host.flush(number)
    work.host.checkpoint()


def write_over_what_was_cut_off(work):
    """Batch for batch of the same size: old ones must not follow new ones."""
    for _ in range(6):
        work.append(PLAIN)
    flushed(work, PLAIN)
    work.host.truncate(PLAIN, 1)
    work.leader_epoch += 1
    work.append(PLAIN)


def write_one(work):
    work.append(PLAIN)


def flush_one(work):
    work.append(PLAIN)
    flushed(work, PLAIN)


def delete_records_that_were_never_synced(work):
    for _ in range(4):
        work.append(PLAIN)
    work.host.delete_records(PLAIN, 3)
    work.host.checkpoint()


def checkpoint_only(work):
    work.host.checkpoint()


def delete_records_and_their_segments(work):
    for _ in range(8):
        work.append(PLAIN, size=200)
    flushed(work, PLAIN)
    work.host.delete_records(PLAIN, work.host.log(PLAIN).segments.active.base_offset)
    work.host.checkpoint()
    work.host.retain()
    work.host.checkpoint()


def seal_what_was_flushed_already(work):
    """Nothing of the sealed segment will be synced again, nor recovered."""
    work.append(PLAIN, size=10, timestamp=NOW_MS + 1000)
    flushed(work, PLAIN)
    work.host.roll(PLAIN)
    work.append(PLAIN, timestamp=NOW_MS)


def seal_preallocated(work):
    work.append(ROOMY)
    flushed(work, ROOMY)
    work.host.roll(ROOMY)
    work.append(ROOMY)


def abort_a_transaction(work):
    work.append_with_sequence(PLAIN, 11, is_transactional=True)
    work.end_transaction(PLAIN, 11, commit=False)
    flushed(work, PLAIN)


def roll_what_was_recovered(work):
    work.host.roll(PLAIN)
    work.append(PLAIN)


def supersede(work):
    for _ in range(6):
        work.append(COMPACTED, count=2, size=150)
    flushed(work, COMPACTED)


def compact_what_is_not_synced(work):
    for _ in range(6):
        work.append(COMPACTED, size=300)
    work.host.compact()


def delete_aborted_segments(work):
    for _ in range(4):
        work.append_with_sequence(PLAIN, 11, is_transactional=True, size=200)
        work.append(PLAIN, size=300)
        work.end_transaction(PLAIN, 11, commit=False)
        work.append(PLAIN, size=300)
    flushed(work, PLAIN)
    work.host.truncate(PLAIN, 2)


STORIES = {
    "truncation is not undone": [write_over_what_was_cut_off],
    "a start beyond the end stays": [delete_records_that_were_never_synced, checkpoint_only],
    "deleted records stay deleted": [delete_records_and_their_segments],
    "a sealed segment keeps its largest timestamp": [flush_one, seal_what_was_flushed_already],
    "a sealed segment keeps no room": [seal_preallocated],
    "recovered indexes stay whole": [abort_a_transaction, nothing, roll_what_was_recovered],
    "compaction goes by what lasts": [supersede, compact_what_is_not_synced],
    "indexes go after their batches": [delete_aborted_segments],
}


@pytest.mark.parametrize("name", STORIES)
def test_what_was_once_lost_is_lost_no_more(tmp_path, name):
    root, sessions, changes = tmp_path / "logs", STORIES[name], 0
    for seed in seeds(60):
        ledger = Ledger()
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        with told(f"{name}, seed {seed}"):
            for number, story in enumerate(sessions[:-1]):
                work_until_cut(root, ledger, story, seed=seed, leader_epoch=number)
            off_at = Random(seed).randint(1, changes + 1) if seed % 2 else None
            last = work_until_cut(root, ledger, sessions[-1], seed=seed, off_at=off_at)
            changes = max(changes, last[1])
            check_reopened(root, ledger, seed=seed)


def test_what_recovery_cut_off_does_not_come_back_behind_new_batches(tmp_path):
    root, prepared = tmp_path / "logs", tmp_path / "prepared"
    prepared.mkdir()
    known = Ledger()
    host = CrashHost(prepared, known)
    host.open()
    for _ in range(4):
        Workload(host, "alike").append(PLAIN)
    path = host.log(PLAIN).segments.active.path(LogFileType.LOG)
    host.abandon()
    content = bytearray(path.read_bytes())
    content[len(content) // 2 - 1] ^= 1
    path.write_bytes(content)
    known.logs[PLAIN] = LogLedger(LogModel(known.logs[PLAIN].model.history[:1], 0, 1))
    for seed in seeds(80):
        ledger = deepcopy(known)
        work_until_cut(copied(prepared, root), ledger, write_one, seed=seed)
        check_reopened(root, ledger, seed=seed)


def selective_seeds(count):
    """Of cuts that keep some names and lose others, whichever came first."""
    kinds = ((seed, str(Lots(Random(seed)))) for seed in seeds(40 * count))
    found = [seed for seed, kind in kinds if " 50%" in kind and "any selection" in kind]
    return found[:count]


def test_the_end_of_a_log_outlasts_the_deletion_of_all_before_it(tmp_path):
    prepared, root = tmp_path / "prepared", tmp_path / "logs"
    log = opened(prepared / "events-0")
    append(log, b"old")
    log.close(now_ms=NOW_MS)
    for off_at, seed in product(range(1, 40), selective_seeds(30)):
        copied(prepared, root)
        with PowerCut(root, seed, off_at=off_at) as disk, told(f"off at {off_at}, {disk!r}"):
            try:
                log = opened(root / "events-0", recovery_point=1)
                apply_retention(log, now_ms=NOW_MS + 8 * 86_400_000)
            except PowerIsOff:
                log.close_handlers()
            is_over = disk.changes < off_at
            disk.cut()
            assert recovered(root / "events-0", recovery_point=1).log_end_offset == 1
        if is_over:
            break
