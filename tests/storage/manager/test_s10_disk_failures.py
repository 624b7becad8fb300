"""S10: a full, broken or read-only disk, and two brokers on one directory.

Producing fails with KAFKA_STORAGE_ERROR and the process continues. The directory stays offline
until a restart, which finds all acknowledged records. Other directories are not affected.
"""

import errno
import resource
import subprocess
import sys

import pytest

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError, code_of
from odradek.storage import clean_shutdown
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_task import execute
from odradek.storage.manager.lock import DirectoryLocked
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_managers import (
    EVENTS,
    ORDERS,
    Notebook,
    carry_all,
    contents,
    managing,
    retain,
    values_in,
    written,
)
from tests.support.logs import NOW_MS, records_batch
from tests.support.power_cut import PowerCut

FAILURES = [errno.ENOSPC, errno.EIO, errno.EROFS]
SETTINGS = {"segment_bytes": 500, "segment_index_bytes": 4096}


class Producing:
    """Appends and flushes as a broker does, and keeps what clients received."""

    def __init__(self, manager, *, flushes=False):
        self.manager = manager
        self.acknowledged = {EVENTS: [], ORDERS: []}
        self.rejected = {EVENTS: [], ORDERS: []}
        self.codes = set()
        self._flushes = flushes

    def run(self, count=8):
        for number in range(count):
            for partition in (EVENTS, ORDERS):
                self._produce(partition, b"%s %d" % (partition.topic.encode(), number))
            if number % 3 == 2:
                self._run_maintenance()

    def _produce(self, partition, value):
        hosted_log = self.manager.find(partition)
        try:
            with hosted_log as log:
                log.append_as_leader(
                    records_batch(value + bytes(100)), leader_epoch=0, now_ms=NOW_MS
                )
                log.update_high_watermark(log.log_end_offset)
            if self._flushes:
                execute(hosted_log.flush_task(now_ms=NOW_MS))
            self.acknowledged[partition].append(value)
        except KafkaStorageError as error:
            self.codes.add(code_of(error))
            self.rejected[partition].append(value)

    def _run_maintenance(self):
        tasks = [
            *self.manager.maintenance.due_flush_tasks(NOW_MS),
            *self.manager.checkpoint_tasks(),
        ]
        for task in tasks:
            try:
                execute(task)
            except LogDirectoryOffline as error:
                self.codes.add(code_of(error))


def start(tmp_path, observer=None):
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer, **SETTINGS)
    for partition in (EVENTS, ORDERS):
        manager.get_or_create_log(partition, now_ms=NOW_MS)
    return manager


def stored_values(manager):
    return {
        partition: [value.rstrip(b"\0") for value in values]
        for partition, values in contents(manager).items()
    }


def check_nothing_lost(producing, actual):
    """Check for all acknowledged records in order, then at most the first rejected record."""
    for partition, acknowledged in producing.acknowledged.items():
        values = actual.get(partition, [])
        extra = values[len(acknowledged) :]
        assert values[: len(acknowledged)] == acknowledged
        assert extra in ([], producing.rejected[partition][:1])


def changes_while_producing(tmp_path, **options):
    with PowerCut(tmp_path, 0) as disk:
        manager = start(tmp_path)
        before = disk.changes
        Producing(manager, **options).run()
        return disk.changes - before


@pytest.mark.parametrize(
    ("error", "short_write"), [(errno.ENOSPC, True), (errno.EIO, False), (errno.EROFS, False)]
)
def test_s10_disk_failure_at_any_change_loses_no_acknowledged_record(tmp_path, error, short_write):
    (tmp_path / "counted").mkdir()
    for n in range(1, changes_while_producing(tmp_path / "counted") + 1):
        root = tmp_path / str(n)
        root.mkdir()
        # PowerCut does not flush to the real disk, which saves time.
        with PowerCut(root, 0):
            observer = Notebook()
            producing = Producing(start(root, observer))
            with FaultyDisk(fail_at=n, error=error, short_write=short_write) as disk:
                producing.run()
            assert producing.codes == {ErrorCode.KAFKA_STORAGE_ERROR.code}, disk
            ((failed, is_last),) = observer.failed
            assert not is_last
            unaffected = ORDERS if failed.name == "a" else EVENTS
            assert len(producing.acknowledged[unaffected]) == 8
            producing.manager.close_handlers()
            restarted = managing(root / "a", root / "b", **SETTINGS)
            check_nothing_lost(producing, stored_values(restarted))
            assert stored_values(restarted)[unaffected] == producing.acknowledged[unaffected]


def test_s10_records_flushed_before_a_disk_failure_survive_a_power_cut(tmp_path):
    (tmp_path / "counted").mkdir()
    for n in range(1, changes_while_producing(tmp_path / "counted", flushes=True) + 1):
        root = tmp_path / str(n)
        root.mkdir()
        with PowerCut(root, n) as power:
            producing = Producing(start(root), flushes=True)
            with FaultyDisk(fail_at=n, error=errno.EIO):
                producing.run()
            power.cut()
            restarted = managing(root / "a", root / "b", **SETTINGS)
            check_nothing_lost(producing, stored_values(restarted))
            restarted.close_handlers()


@pytest.mark.parametrize("error", FAILURES, ids=errno.errorcode.get)
def test_s10_permanently_failed_disk_is_not_accessed_again(tmp_path, error):
    observer = Notebook()
    producing = Producing(start(tmp_path, observer))
    producing.run(count=1)
    with FaultyDisk(fail_at=1, error=error, persists=True) as disk:
        producing.run(count=3)
        assert observer.failed == [(tmp_path / "a", False), (tmp_path / "b", True)]
        failed_calls = list(disk.failed_calls)
        assert len(failed_calls) == 2
        producing.run(count=3)
        carry_all(producing.manager.checkpoint_tasks())
        carry_all(producing.manager.maintenance.due_flush_tasks(NOW_MS))
        retain(producing.manager)
        producing.manager.close(now_ms=NOW_MS)
        assert disk.failed_calls == failed_calls
    assert {clean_shutdown.read(tmp_path / name) for name in ("a", "b")} == {None}
    check_nothing_lost(
        producing, stored_values(managing(tmp_path / "a", tmp_path / "b", **SETTINGS))
    )


def test_s10_read_failure_takes_the_directory_offline_for_reads_and_writes(tmp_path):
    observer = Notebook()
    manager = start(tmp_path, observer)
    for value in (b"a", b"at the end, which is found without reading"):
        written(manager, EVENTS, value)
    written(manager, ORDERS, b"b")
    with (
        FaultyDisk(fail_at=1, error=errno.EIO, counting={"pread"}),
        pytest.raises(LogDirectoryOffline),
        manager.find(EVENTS) as log,
    ):
        log.read(0, max_bytes=100, max_offset=1)
    for _ in range(2):
        with pytest.raises(LogDirectoryOffline) as error:
            written(manager, EVENTS, b"c")
        assert code_of(error.value) == ErrorCode.KAFKA_STORAGE_ERROR.code
    assert values_in(manager.find(ORDERS)) == [b"b"]
    assert observer.failed == [(tmp_path / "a", False)]


def test_s10_offline_directory_returns_only_after_a_restart(tmp_path):
    manager = start(tmp_path)
    written(manager, EVENTS, b"a")
    with FaultyDisk(fail_at=1, counting={"pwritev"}), pytest.raises(LogDirectoryOffline):
        written(manager, EVENTS, b"b")
    with pytest.raises(LogDirectoryOffline):
        written(manager, EVENTS, b"c")
    manager.close(now_ms=NOW_MS)
    restarted = managing(tmp_path / "a", tmp_path / "b", **SETTINGS)
    assert values_in(written(restarted, EVENTS, b"d")) == [b"a", b"d"]


def test_s10_log_created_elsewhere_because_of_a_full_disk_is_found_later(tmp_path):
    for n in range(1, 20):
        root = tmp_path / str(n)
        manager = managing(root / "a", root / "b", **SETTINGS)
        with FaultyDisk(fail_at=n, error=errno.ENOSPC) as disk:
            hosted_log = written(manager, EVENTS)
        if not disk.failed_calls:
            break
        assert hosted_log.directory.path == root / "b"
        written(manager, EVENTS, b"a")
        manager.close_handlers()
        restarted = managing(root / "a", root / "b", **SETTINGS)
        assert contents(restarted) == {EVENTS: [b"a"]}
        assert restarted.find(EVENTS).directory.path == root / "b"
    assert n > 3


FILE_BYTES_MAX = 20_000

PRODUCER = """
import resource, sys
from pathlib import Path
from tests.storage.manager.test_s10_disk_failures import FILE_BYTES_MAX, until_refused

resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))
print(until_refused(Path(sys.argv[1])))
"""


def until_refused(path):
    manager = managing(path, segment_index_bytes=4096)
    count = 0
    while True:
        try:
            written(manager, EVENTS, b"%d" % count + bytes(1000))
        except LogDirectoryOffline:
            return count
        count += 1


def test_s10_file_size_limit_of_the_system_loses_no_record(tmp_path):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != FILE_BYTES_MAX
    command = [sys.executable, "-c", PRODUCER, str(tmp_path)]
    count = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert count > 10
    actual = values_in(managing(tmp_path, segment_index_bytes=4096).find(EVENTS))
    assert [value.rstrip(b"\0") for value in actual] == [b"%d" % number for number in range(count)]


def test_s10_second_manager_on_a_locked_directory_does_not_start(tmp_path):
    manager = start(tmp_path)
    written(manager, EVENTS, b"a")
    with pytest.raises(DirectoryLocked, match=str(tmp_path / "b")):
        managing(tmp_path / "b")
    assert values_in(written(manager, EVENTS, b"b")) == [b"a", b"b"]
