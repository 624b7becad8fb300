"""One log directory, and all of a broker's together: whose are they, and do they work?"""

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
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.lock import DirectoryLocked
from odradek.storage.meta_properties import DirectoryRefused, MetaProperties
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_managers import Notebook


def directories(*paths, observer=None):
    found = LogDirectories(paths, observer or Notebook())
    found.open()
    return found


def failing(directory):
    with directory.guard("reading"):
        raise OSError(errno.EIO, "the disk is broken")


def test_a_missing_directory_is_made_with_those_above_it(tmp_path):
    path = tmp_path / "disk" / "logs"
    (made,) = directories(path)
    assert path.is_dir()
    assert made.is_online


def test_a_directory_is_opened_once_at_a_time(tmp_path):
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


def test_s10_a_directory_belongs_to_one_process_until_that_ends_however_it_ends(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(DirectoryLocked, match=str(tmp_path)):
            directories(tmp_path)
        holder.send_signal(signal.SIGKILL)
    directories(tmp_path).release()


def test_what_was_opened_before_a_refusal_is_given_back(tmp_path):
    held = directories(tmp_path / "b")
    with pytest.raises(DirectoryLocked):
        directories(tmp_path / "a", tmp_path / "b")
    directories(tmp_path / "a").release()
    held.release()


def test_one_directory_under_two_names_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(DirectoryRefused, match="the same directory"):
        directories(tmp_path / "a", tmp_path / "b")


def test_a_directory_that_cannot_be_opened_is_offline_and_the_others_are_not(tmp_path):
    (tmp_path / "a").write_bytes(b"a file")
    observer = Notebook()
    found = directories(tmp_path / "a", tmp_path / "b", observer=observer)
    assert [each.path for each in found.offline] == [tmp_path / "a"]
    assert [each.path for each in found.online] == [tmp_path / "b"]
    assert observer.failed == [(tmp_path / "a", False)]


@pytest.mark.parametrize("call", ["mkdir", "open"])
def test_a_read_only_disk_is_offline(tmp_path, call):
    observer = Notebook()
    with FaultyDisk(fail_at=1, error=errno.EROFS, counting={call}):
        found = directories(tmp_path / "a", tmp_path / "b", observer=observer)
    assert observer.failed == [(tmp_path / "a", False)]
    assert "Read-only file system" in str(found.all[0].failure)


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        (MetaProperties(broker_id=2, cluster_id="ours"), "broker.id is 2, but this broker has 1"),
        (MetaProperties(broker_id=1, cluster_id="theirs"), "cluster.id is theirs"),
    ],
)
def test_another_brokers_directory_is_refused(tmp_path, meta, why):
    meta_properties.write(tmp_path, meta)
    found = directories(tmp_path)
    with pytest.raises(DirectoryRefused, match=why):
        found.check_owner(broker_id=1, cluster_id="ours")
    with pytest.raises(DirectoryRefused, match=why):
        found.claim(broker_id=1, cluster_id="ours")
    assert meta_properties.read(tmp_path) == meta


def test_directories_of_two_brokers_are_refused_even_if_nothing_is_expected(tmp_path):
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        meta_properties.write(tmp_path / str(number), MetaProperties(broker_id=number))
    found = directories(tmp_path / "1", tmp_path / "2")
    with pytest.raises(DirectoryRefused):
        found.check_owner(broker_id=None, cluster_id=None)


def test_a_claimed_directory_says_whose_it_is_and_keeps_what_else_it_says(tmp_path):
    others = {"directory.id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    meta_properties.write(tmp_path, MetaProperties(broker_id=1, others=others))
    found = directories(tmp_path)
    found.claim(broker_id=1, cluster_id="ours")
    assert meta_properties.read(tmp_path) == MetaProperties(1, "ours", others)


def test_a_claim_that_changes_nothing_writes_nothing(tmp_path):
    found = directories(tmp_path)
    found.claim(broker_id=1, cluster_id="ours")
    with FaultyDisk() as disk:
        found.claim(broker_id=1, cluster_id="ours")
    assert disk.changes == 0


def test_a_directory_that_cannot_be_claimed_is_offline(tmp_path):
    observer = Notebook()
    found = directories(tmp_path / "a", tmp_path / "b", observer=observer)
    with FaultyDisk(fail_at=1, error=errno.ENOSPC):
        found.claim(broker_id=1, cluster_id="ours")
    assert observer.failed == [(tmp_path / "a", False)]
    assert meta_properties.read(tmp_path / "b") == MetaProperties(1, "ours")


def test_an_unreadable_meta_properties_is_refused(tmp_path):
    (tmp_path / meta_properties.FILE_NAME).write_text("version=0\nbroker.id=one\n")
    with pytest.raises(DirectoryRefused, match="no broker's id"):
        directories(tmp_path)


def test_a_failure_of_the_disk_is_a_storage_error(tmp_path):
    (directory,) = directories(tmp_path)
    with pytest.raises(LogDirectoryOffline, match=r"reading failed: .* broken") as failure:
        failing(directory)
    assert code_of(failure.value) == ErrorCode.KAFKA_STORAGE_ERROR.code
    assert isinstance(failure.value.__cause__, OSError)


def test_other_failures_are_not_the_disks(tmp_path):
    (directory,) = directories(tmp_path)
    with pytest.raises(OffsetOutOfRange), directory.guard("reading"):
        raise OffsetOutOfRange("too far")
    assert directory.is_online


def test_an_offline_directory_stays_so_and_is_not_touched(tmp_path):
    (directory,) = directories(tmp_path)
    with pytest.raises(LogDirectoryOffline):
        failing(directory)
    reached = []
    with pytest.raises(LogDirectoryOffline, match="reading failed"), directory.guard("writing"):
        reached.append("the disk")
    assert not reached


def test_an_offline_directory_can_be_unmounted_and_taken_by_another(tmp_path):
    (directory,) = directories(tmp_path)
    with pytest.raises(LogDirectoryOffline):
        failing(directory)
    directories(tmp_path).release()


def test_a_directory_that_fails_belongs_to_nobody_else_while_something_may_write_there(tmp_path):
    first = directories(tmp_path)
    (failed,) = first
    with failed.in_use():
        with failed.in_use(), pytest.raises(LogDirectoryOffline):
            failing(failed)
        with pytest.raises(DirectoryLocked):
            directories(tmp_path)
    directories(tmp_path).release()


def test_work_that_is_under_way_when_its_directory_fails_keeps_others_out(tmp_path):
    (failed,) = directories(tmp_path)
    work = DiskWork(failed, "writing", lambda: lambda: None)
    with work:
        failed.fail(OSError(errno.EIO, "broken"), "something else")
        with pytest.raises(DirectoryLocked):
            directories(tmp_path)
    directories(tmp_path).release()


def test_who_loses_the_last_directory_is_told(tmp_path):
    observer = Notebook()
    for directory in directories(tmp_path / "a", tmp_path / "b", observer=observer):
        for _ in range(2):
            with pytest.raises(LogDirectoryOffline):
                failing(directory)
    assert observer.failed == [(tmp_path / "a", False), (tmp_path / "b", True)]


def test_the_marker_of_a_clean_shutdown_is_believed_once(tmp_path):
    clean_shutdown.write(tmp_path)
    (directory,) = directories(tmp_path)
    assert directory.read_marker()
    directory.remove_marker()
    assert not directory.read_marker()


def test_a_directory_tells_how_much_room_is_left(tmp_path):
    (directory,) = directories(tmp_path)
    space = directory.space()
    assert 0 <= space.usable_bytes <= space.total_bytes


def test_a_directory_is_found_by_its_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = directories("logs")
    assert found.at(os.fspath(tmp_path / "logs")) is found.all[0]
    with pytest.raises(LogDirNotFound):
        found.at("logs")
