"""One log directory, and all log directories of a broker: ownership, locks and failures."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import LogDirNotFound, OffsetOutOfRange, code_of
from odradek.storage import clean_shutdown, meta_properties
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_task import DiskTask
from odradek.storage.manager.lock import DirectoryLocked
from odradek.storage.meta_properties import InvalidLogDirectory, MetaProperties
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_managers import Notebook


def directories(*paths, observer=None):
    log_directories = LogDirectories(paths, observer or Notebook())
    log_directories.open()
    return log_directories


def fail_read(directory):
    with directory.guard("reading"):
        raise OSError(errno.EIO, "the disk is broken")


def test_missing_directory_is_created_with_its_parents(tmp_path):
    path = tmp_path / "disk" / "logs"
    (directory,) = directories(path)
    assert path.is_dir()
    assert directory.is_online


def test_open_directory_is_locked(tmp_path):
    first = directories(tmp_path)
    with pytest.raises(DirectoryLocked, match=str(tmp_path)):
        directories(tmp_path)
    first.release()
    directories(tmp_path).release()


HOLDER = """
import sys
from pathlib import Path
from odradek.storage.manager.lock import DirectoryLock

lock = DirectoryLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_s10_directory_lock_is_held_until_its_process_ends(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(DirectoryLocked, match=str(tmp_path)):
            directories(tmp_path)
        holder.send_signal(signal.SIGKILL)
    directories(tmp_path).release()


def test_directories_opened_before_an_error_are_released(tmp_path):
    locked = directories(tmp_path / "b")
    with pytest.raises(DirectoryLocked):
        directories(tmp_path / "a", tmp_path / "b")
    directories(tmp_path / "a").release()
    locked.release()


def test_same_directory_under_two_names_is_rejected(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InvalidLogDirectory, match="the same directory"):
        directories(tmp_path / "a", tmp_path / "b")


def test_only_the_directory_that_cannot_be_opened_is_offline(tmp_path):
    (tmp_path / "a").write_bytes(b"a file")
    observer = Notebook()
    log_directories = directories(tmp_path / "a", tmp_path / "b", observer=observer)
    assert [directory.path for directory in log_directories.offline] == [tmp_path / "a"]
    assert [directory.path for directory in log_directories.online] == [tmp_path / "b"]
    assert observer.failed == [(tmp_path / "a", False)]


@pytest.mark.parametrize("call", ["mkdir", "open"])
def test_read_only_disk_is_offline(tmp_path, call):
    observer = Notebook()
    with FaultyDisk(fail_at=1, error=errno.EROFS, counting={call}):
        log_directories = directories(tmp_path / "a", tmp_path / "b", observer=observer)
    assert observer.failed == [(tmp_path / "a", False)]
    assert "Read-only file system" in str(log_directories.all[0].error)


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        (MetaProperties(broker_id=2, cluster_id="ours"), "broker.id is 2, but this broker has 1"),
        (MetaProperties(broker_id=1, cluster_id="theirs"), "cluster.id is theirs"),
    ],
)
def test_directory_of_another_broker_is_rejected(tmp_path, meta, reason):
    meta_properties.write(tmp_path, meta)
    log_directories = directories(tmp_path)
    with pytest.raises(InvalidLogDirectory, match=reason):
        log_directories.verify_meta_properties(broker_id=1, cluster_id="ours")
    with pytest.raises(InvalidLogDirectory, match=reason):
        log_directories.write_meta_properties(broker_id=1, cluster_id="ours")
    assert meta_properties.read(tmp_path) == meta


def test_directories_of_two_brokers_are_rejected_without_an_expected_id(tmp_path):
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        meta_properties.write(tmp_path / str(number), MetaProperties(broker_id=number))
    log_directories = directories(tmp_path / "1", tmp_path / "2")
    with pytest.raises(InvalidLogDirectory):
        log_directories.verify_meta_properties(broker_id=None, cluster_id=None)


def test_meta_properties_are_completed_and_keep_other_properties(tmp_path):
    others = {"directory.id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    meta_properties.write(tmp_path, MetaProperties(broker_id=1, other_properties=others))
    log_directories = directories(tmp_path)
    log_directories.write_meta_properties(broker_id=1, cluster_id="ours")
    assert meta_properties.read(tmp_path) == MetaProperties(1, "ours", others)


def test_unchanged_meta_properties_are_not_written(tmp_path):
    log_directories = directories(tmp_path)
    log_directories.write_meta_properties(broker_id=1, cluster_id="ours")
    with FaultyDisk() as disk:
        log_directories.write_meta_properties(broker_id=1, cluster_id="ours")
    assert disk.changes == 0


def test_directory_whose_meta_properties_cannot_be_written_is_offline(tmp_path):
    observer = Notebook()
    log_directories = directories(tmp_path / "a", tmp_path / "b", observer=observer)
    with FaultyDisk(fail_at=1, error=errno.ENOSPC):
        log_directories.write_meta_properties(broker_id=1, cluster_id="ours")
    assert observer.failed == [(tmp_path / "a", False)]
    assert meta_properties.read(tmp_path / "b") == MetaProperties(1, "ours")


def test_invalid_meta_properties_are_rejected(tmp_path):
    (tmp_path / meta_properties.FILE_NAME).write_text("version=0\nbroker.id=one\n")
    with pytest.raises(InvalidLogDirectory, match="not a valid broker id"):
        directories(tmp_path)


def test_disk_failure_is_a_storage_error(tmp_path):
    (directory,) = directories(tmp_path)
    with pytest.raises(LogDirectoryOffline, match=r"reading failed: .* broken") as error:
        fail_read(directory)
    assert code_of(error.value) == ErrorCode.KAFKA_STORAGE_ERROR.code
    assert isinstance(error.value.__cause__, OSError)


def test_other_errors_do_not_take_the_directory_offline(tmp_path):
    (directory,) = directories(tmp_path)
    with pytest.raises(OffsetOutOfRange), directory.guard("reading"):
        raise OffsetOutOfRange("too far")
    assert directory.is_online


def test_offline_directory_stays_offline_and_is_not_accessed(tmp_path):
    (directory,) = directories(tmp_path)
    with pytest.raises(LogDirectoryOffline):
        fail_read(directory)
    reached = []
    with pytest.raises(LogDirectoryOffline, match="reading failed"), directory.guard("writing"):
        reached.append("the disk")
    assert not reached


def test_offline_directory_releases_its_lock(tmp_path):
    (directory,) = directories(tmp_path)
    with pytest.raises(LogDirectoryOffline):
        fail_read(directory)
    directories(tmp_path).release()


def test_failed_directory_stays_locked_while_it_is_in_use(tmp_path):
    first = directories(tmp_path)
    (failed,) = first
    with failed.in_use():
        with failed.in_use(), pytest.raises(LogDirectoryOffline):
            fail_read(failed)
        with pytest.raises(DirectoryLocked):
            directories(tmp_path)
    directories(tmp_path).release()


def test_failed_directory_stays_locked_while_a_disk_task_runs(tmp_path):
    (failed,) = directories(tmp_path)
    task = DiskTask(failed, "writing", lambda: lambda: None)
    with task:
        failed.mark_offline(OSError(errno.EIO, "broken"), "something else")
        with pytest.raises(DirectoryLocked):
            directories(tmp_path)
    directories(tmp_path).release()


def test_observer_is_notified_when_the_last_directory_fails(tmp_path):
    observer = Notebook()
    for directory in directories(tmp_path / "a", tmp_path / "b", observer=observer):
        for _ in range(2):
            with pytest.raises(LogDirectoryOffline):
                fail_read(directory)
    assert observer.failed == [(tmp_path / "a", False), (tmp_path / "b", True)]


def test_clean_shutdown_marker_is_removed(tmp_path):
    clean_shutdown.write(tmp_path)
    (directory,) = directories(tmp_path)
    assert directory.read_clean_shutdown_marker()
    directory.remove_clean_shutdown_marker()
    assert not directory.read_clean_shutdown_marker()


def test_directory_reports_its_usable_space(tmp_path):
    (directory,) = directories(tmp_path)
    space = directory.space()
    assert 0 <= space.usable_bytes <= space.total_bytes


def test_directory_is_found_by_its_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log_directories = directories("logs")
    assert log_directories.get(os.fspath(tmp_path / "logs")) is log_directories.all[0]
    with pytest.raises(LogDirNotFound):
        log_directories.get("logs")
