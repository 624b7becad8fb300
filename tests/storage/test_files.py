"""File functions over the system calls, tested on a real disk."""

import errno
import os

import pytest

from odradek.storage import files
from tests.support.faulty_disk import FaultyDisk


@pytest.fixture
def descriptor(tmp_path):
    opened = files.open_for_writing(tmp_path / "file")
    yield opened
    files.system.close(opened)


class ShortSystemCalls(files.SystemCalls):
    """Writes and reads at most three bytes per call and accepts at most two buffers."""

    writes = 0

    def pwritev(self, descriptor, buffers, position):
        if len(buffers) > 2:
            raise OSError(errno.EINVAL, "too many buffers")
        self.writes += 1
        return os.pwritev(descriptor, [b"".join(buffers)[:3]], position)

    def pread(self, descriptor, length, position):
        return os.pread(descriptor, min(length, 3), position)


@pytest.fixture
def stingy(monkeypatch):
    system = ShortSystemCalls()
    monkeypatch.setattr(files, "system", system)
    monkeypatch.setattr(files, "BUFFERS_PER_WRITE", 2)
    return system


def test_open_for_writing_creates_a_file_and_keeps_existing_content(tmp_path):
    path = tmp_path / "file"
    first = files.open_for_writing(path)
    files.write_at(first, [b"kept"], 0)
    second = files.open_for_writing(path)
    assert files.read_at(second, 100, 0) == b"kept"
    os.close(first)
    os.close(second)


def test_descriptors_are_not_inherited(descriptor):
    assert not os.get_inheritable(descriptor)


def test_several_buffers_are_written_consecutively_at_the_position(descriptor):
    written_bytes = files.write_at(descriptor, [b"ab", bytearray(b"cd"), memoryview(b"ef")], 3)
    assert written_bytes == 6
    assert files.read_at(descriptor, 100, 0) == b"\0\0\0abcdef"


@pytest.mark.parametrize("buffers", [[], [b""], [b"", b""]])
def test_writing_empty_buffers_writes_nothing(descriptor, buffers):
    assert files.write_at(descriptor, buffers, 0) == 0


def test_more_buffers_than_one_call_accepts_are_all_written(descriptor):
    count = files.BUFFERS_PER_WRITE * 2 + 1
    assert files.write_at(descriptor, [b"ab"] * count, 0) == 2 * count
    assert files.read_at(descriptor, 3 * count, 0) == b"ab" * count


@pytest.mark.parametrize(
    "buffers",
    [[b"0123456789"], [b"01", b"23456", b"", b"789"], [b"", b"", b"", b"0123456789"], [b"012"]],
)
def test_a_short_write_is_completed(stingy, descriptor, buffers):
    whole = b"".join(buffers)
    assert files.write_at(descriptor, buffers, 5) == len(whole)
    assert os.pread(descriptor, 100, 5) == whole


def test_a_write_that_makes_no_progress_is_an_error(stingy, descriptor, monkeypatch):
    monkeypatch.setattr(stingy, "pwritev", lambda *_: 0)
    with pytest.raises(OSError, match="pwritev wrote 0 bytes at 7"):
        files.write_at(descriptor, [b"abc"], 7)


def test_a_short_read_is_completed(stingy, descriptor):
    files.write_at(descriptor, [b"0123456789"], 0)
    assert files.read_at(descriptor, 8, 1) == b"12345678"


def test_a_read_ends_at_the_end_of_the_file(stingy, descriptor):
    files.write_at(descriptor, [b"0123456789"], 0)
    assert files.read_at(descriptor, 100, 6) == b"6789"
    assert files.read_at(descriptor, 100, 10) == b""


def test_a_missing_file_is_read_as_none_and_an_empty_one_as_empty(tmp_path):
    assert files.read(tmp_path / "none") is None
    (tmp_path / "empty").touch()
    assert files.read(tmp_path / "empty") == b""


def test_replace_leaves_the_new_content_and_no_temporary_file(tmp_path):
    path = tmp_path / "file"
    files.replace(path, b"a long first content")
    files.replace(path, b"short")
    assert path.read_bytes() == b"short"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_replace_overwrites_a_leftover_temporary_file(tmp_path):
    (tmp_path / "file.tmp").write_bytes(b"a long leftover of an earlier attempt")
    files.replace(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_replace_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.replace("file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors cannot be counted")
def test_a_failing_replace_changes_nothing_and_leaves_nothing_open(tmp_path):
    path = tmp_path / "file"
    files.replace(path, b"old")
    before = open_descriptors()
    for n in range(1, 4):
        with FaultyDisk(fail_at=n, error=errno.ENOSPC) as disk, pytest.raises(OSError, match="No"):
            files.replace(path, b"new")
        assert path.read_bytes() == b"old", disk
    assert open_descriptors() == before


def test_truncate_shortens_and_extends(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    files.truncate(path, 4)
    files.truncate(path, 6)
    assert path.read_bytes() == b"0123\0\0"


def test_truncate_does_not_create_a_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.truncate(tmp_path / "none", 0)


def test_fallocate_extends_the_file_and_keeps_its_content(descriptor):
    files.write_at(descriptor, [b"kept"], 0)
    files.system.fallocate(descriptor, 2, 10_000)
    assert os.fstat(descriptor).st_size == 10_002
    assert os.fstat(descriptor).st_blocks * 512 >= 10_002
    assert files.read_at(descriptor, 20_000, 0) == b"kept" + bytes(9_998)


def test_fallocate_works_where_the_call_is_unsupported(descriptor, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    test_fallocate_extends_the_file_and_keeps_its_content(descriptor)


def test_fallocate_works_where_the_call_does_not_exist(descriptor, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    test_fallocate_extends_the_file_and_keeps_its_content(descriptor)


def test_fallocate_on_a_full_disk_raises(descriptor, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="full"):
        files.system.fallocate(descriptor, 0, 10)


def test_rename_replaces_the_target(tmp_path):
    (tmp_path / "old").write_bytes(b"1")
    (tmp_path / "new").write_bytes(b"2")
    files.rename_durably(tmp_path / "old", tmp_path / "new")
    assert (tmp_path / "new").read_bytes() == b"1"
    assert not (tmp_path / "old").exists()


@pytest.mark.parametrize("remove", [files.remove, files.remove_durably])
def test_remove_returns_whether_the_file_existed(tmp_path, remove):
    (tmp_path / "file").touch()
    assert remove(tmp_path / "file") is True
    assert remove(tmp_path / "file") is False


def test_remove_directory_removes_its_content_but_not_link_targets(tmp_path):
    outside = tmp_path / "outside"
    files.create_directory(outside)
    (outside / "kept").touch()
    removed = tmp_path / "doomed"
    files.create_directory(removed)
    files.create_directory(removed / "inner")
    (removed / "inner" / "file").touch()
    (removed / "link").symlink_to(outside)
    files.remove_directory(removed)
    assert not removed.exists()
    assert (outside / "kept").exists()


def test_modification_time_can_be_set(tmp_path):
    (tmp_path / "file").touch()
    files.set_modified_ns(tmp_path / "file", 1_234_567_000)
    assert (tmp_path / "file").stat().st_mtime_ns == 1_234_567_000


def test_a_file_can_be_synced_by_its_path(tmp_path):
    (tmp_path / "file").touch()
    with FaultyDisk() as disk:
        files.sync_path(tmp_path / "file")
    assert disk.changes == 1
