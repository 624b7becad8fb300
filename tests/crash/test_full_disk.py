"""A disk that fails at any call: the caller is told, and nothing that was acknowledged is lost.

Through the log manager the first failure takes the log directory offline, and whatever is tried
from then on is refused with KAFKA_STORAGE_ERROR; after a restart on a disk that works again all is
there that was acknowledged.  A log by itself lets the OSError pass, and is as if the append that
failed had not been tried.
"""

import errno
import shutil
from copy import deepcopy

import pytest

from odradek.protocol.errors import KafkaStorageError
from odradek.protocol.types import TopicPartition
from odradek.storage import clean_shutdown, files
from tests.support.crash_host import PLAIN, CrashHost
from tests.support.crash_ledger import Crash, Ledger
from tests.support.crash_rounds import copied, told
from tests.support.crash_scenarios import EPOCH
from tests.support.crash_stories import LAST_DAY, NIGHT
from tests.support.crash_workload import Workload
from tests.support.fault_points import Unsynced
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import NOW_MS, append, opened, records_from, recovered


@pytest.fixture(autouse=True)
def _nothing_is_synced(monkeypatch):
    monkeypatch.setattr(files, "system", Unsynced())


STORIES = {"day": LAST_DAY, "night": NIGHT}
FAULTS = {
    "ENOSPC": {"error": errno.ENOSPC, "short_write": True},
    "EIO": {"error": errno.EIO},
}


def play(root, ledger, story, **fault):
    """Until the disk fails, which every attempt to use a log is then told; the disk."""
    with FaultyDisk(**fault, persists=True) as disk:
        host = CrashHost(root, ledger)
        try:
            host.open()
            story(Workload(host, "day", leader_epoch=EPOCH))
        except KafkaStorageError:
            check_refused(host)
        host.abandon()
    return disk


def check_refused(host):
    calls = files.system.changes
    assert not host.directories.online
    for hosted in host.manager.logs:
        with pytest.raises(KafkaStorageError), hosted as log:
            append(log, b"more")
    with pytest.raises(KafkaStorageError):
        host.manager.get_or_create_log(TopicPartition("another", 0), now_ms=NOW_MS)
    assert files.system.changes == calls


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", STORIES)
def test_s10_a_disk_that_fails_at_any_call_loses_nothing_acknowledged(tmp_path, name, fault):
    story, prepared, root = STORIES[name], tmp_path / "prepared", tmp_path / "logs"
    known = story.prepared(prepared)
    changes = play(copied(prepared, root), deepcopy(known), story.run).changes
    for fail_at in range(1, changes + 1):
        ledger = deepcopy(known)
        copied(prepared, root)
        with told(f"{fault} at call {fail_at} of {changes}"):
            disk = play(root, ledger, story.run, fail_at=fail_at, **FAULTS[fault])
            assert disk.failed_calls
            host = CrashHost(root, ledger)
            host.open()
            ledger.check(host, Crash.KILL)
            host.abandon()


def test_a_disk_that_fails_while_logs_are_closed_leaves_no_mark_of_a_clean_end(tmp_path):
    with FaultyDisk(counting=["fsync"], fail_at=1) as disk:
        host = CrashHost(tmp_path, Ledger())
        host.open()
        Workload(host, "last").append(PLAIN)
        host.manager.close(now_ms=NOW_MS)
    assert disk.failed_calls == ["fsync"]
    assert clean_shutdown.read(tmp_path) is None


SMALL = {"segment_bytes": 700, "index_interval_bytes": 100, "segment_index_bytes": 240}


def append_some(log):
    """What was acknowledged, and how often it failed."""
    acknowledged, failures = [], 0
    for number in range(12):
        value = b"%02d" % number + bytes(100)
        try:
            written = append(log, value, timestamp=NOW_MS + number)
        except OSError:
            failures += 1
            continue
        assert written.first_offset == len(acknowledged)
        acknowledged.append(value)
    return acknowledged, failures


@pytest.mark.parametrize("fault", FAULTS)
def test_an_append_that_failed_is_as_if_it_had_not_been_tried(tmp_path, fault):
    directory = tmp_path / "events-0"
    log = opened(directory, **SMALL)
    with FaultyDisk() as disk:
        append_some(log)
    log.close_handlers()
    for fail_at in range(1, disk.changes + 1):
        shutil.rmtree(directory)
        with told(f"{fault} at call {fail_at}"):
            log = opened(directory, **SMALL)
            with FaultyDisk(fail_at=fail_at, **FAULTS[fault]):
                acknowledged, failures = append_some(log)
            assert [record.value for record in records_from(log)] == acknowledged
            assert failures == 1
            log.close_handlers()
            again = recovered(directory, **SMALL)
            assert [record.value for record in records_from(again)] == acknowledged
            again.close_handlers()
