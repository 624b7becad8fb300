"""A writer is killed at any moment, and what it said was done is there afterwards.

The writer is a process of its own (tests/support/crash_writer.py): several logs under a log manager
are appended to with and without producer ids, rolled, synced, checkpointed, truncated, retained,
compacted, deleted and closed.  It is killed from outside after so many acknowledgements, wherever
it is by then, or kills itself at a system call: in every scenario at every one that changes files.
"""

from copy import deepcopy
from random import Random

import pytest

from odradek.storage import files
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from tests.support.crash_host import CrashHost
from tests.support.crash_ledger import Crash, Ledger
from tests.support.crash_rounds import copied, seeds, told
from tests.support.crash_scenarios import SCENARIOS
from tests.support.crash_steps import Kind, Step
from tests.support.fault_points import Fault, Unsynced
from tests.support.killed_writer import Order, killed_writer
from tests.support.log_survey import survey
from tests.support.logs import NOW_MS

ROUNDS_PER_SEED = 12


@pytest.fixture(scope="module")
def writer():
    with killed_writer() as started:
        yield started


@pytest.fixture(autouse=True)
def _nothing_is_synced(monkeypatch):
    monkeypatch.setattr(files, "system", Unsynced())


def check_reopened(root, ledger):
    """Opens the logs, which a later round must not count on."""
    interrupted = ledger.pending
    host = CrashHost(root, ledger)
    host.open()
    ledger.check(host, Crash.KILL)
    check_sent_again(host, interrupted)
    host.abandon()


def check_sent_again(host: CrashHost, interrupted: Step | None):
    """What was not acknowledged is sent again, and is there once afterwards."""
    if interrupted is None or interrupted.kind is not Kind.APPEND:
        return
    batch, log = interrupted.batch, host.log(interrupted.log)
    if batch.producer_id < 0 or batch.ends:
        return
    end_offset = log.log_end_offset
    written = log.append_as_leader(
        batch.encoded(), leader_epoch=10_000, origin=AppendOrigin.CLIENT, now_ms=NOW_MS
    )
    assert written.is_duplicate or written.first_offset == end_offset
    values = [record.value for found in survey(log) for record in found.batch.records]
    assert [values.count(value.encode()) for value in batch.values] == [1] * len(batch.values)


@pytest.mark.parametrize("seed", seeds(6))
def test_s1_y4_a_writer_killed_after_any_acknowledgement_loses_nothing(writer, tmp_path, seed):
    random, ledger, root = Random(seed), Ledger(), tmp_path / "logs"
    root.mkdir()
    for number in range(ROUNDS_PER_SEED):
        order = Order(root=root, seed=f"{seed}.{number}", leader_epoch=1000 * number, steps=300)
        kill_after = random.randint(1, 60)
        with told(f"{order}, killed after {kill_after}"):
            assert writer.run(order, ledger, kill_after=kill_after).was_killed
            check_reopened(copied(root, tmp_path / "copy"), ledger)


@pytest.mark.parametrize("seed", seeds(2))
def test_s1_a_writer_killed_while_it_recovers_loses_nothing(writer, tmp_path, seed):
    random, ledger, root = Random(seed), Ledger(), tmp_path / "logs"
    root.mkdir()
    for number in range(ROUNDS_PER_SEED):
        order = Order(root=root, seed=f"{seed}.{number}", leader_epoch=1000 * number, steps=30)
        assert not writer.run(order, ledger).was_killed
        faults = [Fault(random.randint(1, 80), "before") for _ in range(2)]
        with told(f"{order}, then {faults}"):
            for fault in faults:
                writer.run(Order(root=root, scenario="opening", fault=fault), ledger)
            check_reopened(copied(root, tmp_path / "copy"), ledger)


def faults_of(points):
    """Before every call that changes something, in the middle of writes, and at the end.

    After those that make room in a map too, as the map is written then, without a call.
    """
    for at, name in enumerate(points, start=1):
        if not name.startswith(("fsync", "sync_directory")):
            yield Fault(at, "before")
        if name.startswith("pwritev"):
            yield Fault(at, "torn")
        if name.startswith("fallocate") or at == len(points):
            yield Fault(at, "after")


@pytest.mark.parametrize("name", SCENARIOS)
def test_s13_a_kill_at_every_system_call_loses_nothing(writer, tmp_path, name):
    scenario, prepared = SCENARIOS[name], tmp_path / "prepared"
    known = scenario.prepared(prepared)
    order = Order(root=copied(prepared, tmp_path / "logs"), scenario=name)
    points = writer.run(order, deepcopy(known)).points
    assert scenario.points <= set(points), scenario.points - set(points)
    for fault in faults_of(points):
        ledger = deepcopy(known)
        order = Order(root=copied(prepared, tmp_path / "logs"), scenario=name, fault=fault)
        with told(f"{fault} at {points[fault.at - 1]}"):
            assert writer.run(order, ledger).was_killed
            check_reopened(order.root, ledger)
