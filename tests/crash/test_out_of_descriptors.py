"""No descriptor is left, at any call that needs one: the caller is told, and nothing is lost.

The directory stays online.  A log whose change was broken off is mended, in the same process, and
then holds what it would hold if the process had been killed there: all that was acknowledged.
"""

from contextlib import suppress
from copy import deepcopy

import pytest

from odradek.protocol.errors import KafkaStorageError
from odradek.storage import clean_shutdown, files
from odradek.storage.manager.disk_task import execute
from tests.support.crash_host import COMPACTED, LOGS, PLAIN, ROOMY, CrashHost
from tests.support.crash_ledger import Crash
from tests.support.crash_rounds import TIMES, copied, told
from tests.support.crash_scenarios import EPOCH
from tests.support.crash_stories import DAY, NIGHT
from tests.support.crash_workload import Workload
from tests.support.fault_points import Unsynced
from tests.support.few_descriptors import FewDescriptors
from tests.support.logs import NOW_MS
from tests.support.power_cut import PowerCut

#: Of the calls that take a descriptor so many are passed over.
STRIDE = max(1, 3 // TIMES)


STORIES = {"day": DAY, "night": NIGHT}


def opened(root, ledger):
    host = CrashHost(root, ledger)
    host.open()
    return host


def play(host, story, **few):
    """As much of the story as there are descriptors for."""
    with FewDescriptors(**few) as system, suppress(KafkaStorageError):
        story(Workload(host, "day", leader_epoch=EPOCH))
    return system


def mend(host):
    """All that was left undone, as a broker does it again when it is due."""
    manager = host.manager
    for work in [*manager.repair_tasks(now_ms=NOW_MS), *manager.deletion_tasks(now_ms=NOW_MS)]:
        execute(work)
    assert manager.repair_tasks(now_ms=NOW_MS) == []
    assert all(hosted.is_usable for hosted in manager.logs)
    for number, partition in enumerate(LOGS):
        if manager.find(partition) is None:
            host._create(number)


@pytest.fixture(autouse=True)
def _nothing_is_synced(monkeypatch):
    monkeypatch.setattr(files, "system", Unsynced())


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("name", STORIES)
def test_whichever_call_finds_no_descriptor_nothing_acknowledged_is_lost(tmp_path, name, count):
    story, prepared, root = STORIES[name], tmp_path / "prepared", tmp_path / "logs"
    known = story.prepared(prepared)
    host = opened(copied(prepared, root), deepcopy(known))
    calls = play(host, story.run).calls
    host.abandon()
    for fail_at in range(1, calls + 1):
        ledger = deepcopy(known)
        host = opened(copied(prepared, root), ledger)
        system = play(host, story.run, fail_at=fail_at, count=count)
        with told(f"{system.failed_calls} at call {fail_at} of {calls}, in {ledger.pending}"):
            assert system.failed_calls
            assert host.directories.online
            mend(host)
            ledger.check(host, Crash.KILL)
            after = Workload(host, "after", leader_epoch=EPOCH + 5)
            for number in (PLAIN, ROOMY, COMPACTED):
                after.append(number, size=300)
                host.roll(number)
                after.append(number)
                host.flush(number)
            host.compact()
            host.checkpoint()
            host.manager.close_handlers()
            again = opened(root, ledger)
            ledger.check(again, Crash.KILL)
            again.close()
            assert clean_shutdown.read(root) is not None
            last = opened(root, ledger)
            ledger.check(last, Crash.KILL)
            last.abandon()


@pytest.mark.parametrize("name", STORIES)
def test_a_power_cut_after_that_takes_nothing_that_was_flushed(tmp_path, name):
    story, prepared, root = STORIES[name], tmp_path / "prepared", tmp_path / "logs"
    known = story.prepared(prepared)
    for fail_at in range(1, 200, STRIDE):
        ledger = deepcopy(known)
        copied(prepared, root)
        with PowerCut(root, fail_at) as disk, told(f"{disk}, at call {fail_at}"):
            host = opened(root, ledger)
            system = play(host, story.run, fail_at=fail_at)
            mend(host)
            ledger.check(host, Crash.KILL)
            after = Workload(host, "after", leader_epoch=EPOCH + 5)
            for number in (PLAIN, COMPACTED):
                after.append(number, count=2)
            host.abandon()
            disk.cut()
            again = opened(root, ledger)
            ledger.check(again, Crash.POWER_CUT)
            again.abandon()
        if not system.failed_calls:
            break
    assert fail_at > 20
