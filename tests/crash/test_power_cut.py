"""What was flushed survives a power cut; what was not may vanish, but never half-appears.

Flushed is what lies before a recovery point that has been checkpointed.  After a cut at any change
of any scenario, and in the middle of random work, and again while the logs recover, every batch
that is found is one that was appended at its offset and not cut off since; no offset that was
flushed is given to another record; and whatever is derived from the batches agrees with them:
indexes, time indexes, aborted transactions, producers, leader epochs.
"""

import shutil
from copy import deepcopy
from random import Random

import pytest

from tests.support.crash_host import COMPACTED, PLAIN, ROOMY, CrashHost
from tests.support.crash_ledger import Crash, Ledger
from tests.support.crash_rounds import SEED, TIMES, copied, seeds, told
from tests.support.crash_scenarios import EPOCH, SCENARIOS
from tests.support.crash_workload import Workload
from tests.support.logs import NOW_MS
from tests.support.power_cut import PowerCut, PowerIsOff

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
            host.notes.noticed("the power is off")
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


def write_over_what_recovery_cut_off(work):
    log = work.host.log(PLAIN)
    for _ in range(6 - log.end_offset % 3):
        work.append(PLAIN)


def delete_all_but_the_unsynced_segment(work):
    """Whose name alone tells that the log does not begin again at 0."""
    for _ in range(6):
        work.append(PLAIN, size=200)
    flushed(work, PLAIN)
    work.host.roll(PLAIN)
    work.append(PLAIN)
    work.host.retain(now_ms=NOW_MS + 8 * 86_400_000)


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


def begin(work):
    for number in (PLAIN, ROOMY):
        work.append(number, timestamp=NOW_MS)
        work.append(number, timestamp=NOW_MS + 1)
        flushed(work, number)


def seal_what_was_flushed_already(work):
    """Nothing of the sealed segment will be synced again, nor recovered."""
    for number in (PLAIN, ROOMY):
        work.append(number, size=10, timestamp=NOW_MS + 1000)
        flushed(work, number)
        work.host.roll(number)
        work.append(number, timestamp=NOW_MS)


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
    "recovery is not undone": [
        *(write_over_what_was_cut_off, nothing),
        *(write_over_what_recovery_cut_off, write_over_what_recovery_cut_off),
    ],
    "retention keeps the end": [delete_all_but_the_unsynced_segment],
    "a start beyond the end stays": [delete_records_that_were_never_synced, checkpoint_only],
    "deleted records stay deleted": [delete_records_and_their_segments],
    "a sealed segment stays whole": [begin, seal_what_was_flushed_already],
    "recovered indexes stay whole": [abort_a_transaction, nothing, roll_what_was_recovered],
    "compaction goes by what lasts": [supersede, compact_what_is_not_synced],
    "indexes go after their batches": [delete_aborted_segments],
}


@pytest.mark.parametrize("name", STORIES)
def test_what_was_once_lost_is_lost_no_more(tmp_path, name):
    root = tmp_path / "logs"
    for seed in seeds(25):
        ledger = Ledger()
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        with told(f"{name}, seed {seed}"):
            for number, story in enumerate(STORIES[name]):
                work_until_cut(root, ledger, story, seed=seed + number, leader_epoch=10 * number)
            check_reopened(root, ledger, seed=seed)
