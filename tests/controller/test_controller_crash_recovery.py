"""A controller with an embedded store is killed at each of its writes. The next process continues.

The final znodes equal those of an undisturbed run, except for epochs.
"""

from itertools import count

import pytest

from odradek.controller.store import paths
from odradek.controller.store.journal import SqliteJournal
from tests.support.followers import without_epochs
from tests.support.killed_controller import STEPS, Order, killed_controller
from tests.support.recorded_trees import content_of

WRITES_MIN = 50


@pytest.fixture(scope="module")
def process():
    with killed_controller() as controller_process:
        yield controller_process


def znodes_in(file):
    journal = SqliteJournal(file)
    records = journal.open().records()
    journal.close()
    return {
        record.path: without_epochs(content_of(record.value))
        for record in records
        if record.path != paths.CONTROLLER_EPOCH
    }


@pytest.fixture(scope="module")
def undisturbed(process, tmp_path_factory):
    file = tmp_path_factory.mktemp("undisturbed") / "metadata.db"
    assert process.run(Order(file=str(file))).steps_done == len(STEPS)
    return znodes_in(file)


def test_undisturbed_run_leaves_the_expected_znodes(undisturbed):
    topics = {path for path in undisturbed if path.startswith(f"{paths.TOPICS}/")}
    assert paths.topic("kept") in topics
    assert all(path.startswith(paths.topic("kept")) for path in topics)
    topic = undisturbed[paths.topic("kept")]
    assert topic["partitions"] == {"0": [1], "1": [1], "2": [1]}
    assert (topic["adding_replicas"], topic["removing_replicas"]) == ({}, {})
    assert paths.REASSIGN_PARTITIONS not in undisturbed


@pytest.mark.parametrize("is_written", [False, True])
def test_next_process_completes_the_work_of_one_killed_at_any_write(
    process, undisturbed, tmp_path, is_written
):
    for write in count(1):
        file = str(tmp_path / f"{write}.db")
        killed_run = process.run(Order(file=file, kill_at_write=write, is_written=is_written))
        next_run = process.run(Order(file=file, first_step=killed_run.steps_done))
        assert next_run.steps_done == len(STEPS)
        assert not next_run.was_killed
        assert znodes_in(tmp_path / f"{write}.db") == undisturbed, write
        if not killed_run.was_killed:
            break
    assert write > WRITES_MIN
