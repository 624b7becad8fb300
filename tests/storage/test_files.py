"""What the functions over the system's calls promise, on a real disk."""

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


class Stingy(files.System):
    """Writes and reads at most three bytes a call, and takes at most two buffers."""

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
    system = Stingy()
    monkeypatch.setattr(files, "system", system)
    monkeypatch.setattr(files, "BUFFERS_PER_WRITE", 2)
    return system


def test_a_file_is_made_when_opened_for_writing_and_kept_when_opened_again(tmp_path):
    path = tmp_path / "file"
    first = files.open_for_writing(path)
    files.write_at(first, [b"kept"], 0)
    second = files.open_for_writing(path)
    assert files.read_at(second, 100, 0) == b"kept"
    os.close(first)
    os.close(second)


def test_descriptors_are_not_inherited(descriptor):
    assert not os.get_inheritable(descriptor)


def test_several_buffers_are_written_in_a_row_at_the_position(descriptor):
    written = files.write_at(descriptor, [b"ab", bytearray(b"cd"), memoryview(b"ef")], 3)
    assert written == 6
    assert files.read_at(descriptor, 100, 0) == b"\0\0\0abcdef"


@pytest.mark.parametrize("buffers", [[], [b""], [b"", b""]])
def test_nothing_can_be_written(descriptor, buffers):
    assert files.write_at(descriptor, buffers, 0) == 0


def test_more_buffers_than_one_call_takes_are_all_written(descriptor):
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
    with pytest.raises(OSError, match="nothing more could be written at 7"):
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
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_replace_overwrites_what_a_crash_left(tmp_path):
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


def test_truncate_cuts_and_lengthens(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    files.truncate(path, 4)
    files.truncate(path, 6)
    assert path.read_bytes() == b"0123\0\0"


def test_truncate_makes_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.truncate(tmp_path / "none", 0)


def test_room_is_made_and_what_is_there_stays(descriptor):
    files.write_at(descriptor, [b"kept"], 0)
    files.system.fallocate(descriptor, 2, 10_000)
    assert os.fstat(descriptor).st_size == 10_002
    assert os.fstat(descriptor).st_blocks * 512 >= 10_002
    assert files.read_at(descriptor, 20_000, 0) == b"kept" + bytes(9_998)


def test_room_is_made_where_it_cannot_be_asked_for(descriptor, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    test_room_is_made_and_what_is_there_stays(descriptor)


def test_room_is_made_where_the_call_does_not_exist(descriptor, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    test_room_is_made_and_what_is_there_stays(descriptor)


def test_no_room_is_an_error_and_not_another_way_to_make_it(descriptor, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="full"):
        files.system.fallocate(descriptor, 0, 10)


def test_a_rename_replaces(tmp_path):
    (tmp_path / "old").write_bytes(b"1")
    (tmp_path / "new").write_bytes(b"2")
    files.rename_durably(tmp_path / "old", tmp_path / "new")
    assert (tmp_path / "new").read_bytes() == b"1"
    assert not (tmp_path / "old").exists()


@pytest.mark.parametrize("remove", [files.remove, files.remove_durably])
def test_removing_tells_whether_there_was_anything(tmp_path, remove):
    (tmp_path / "file").touch()
    assert remove(tmp_path / "file") is True
    assert remove(tmp_path / "file") is False


def test_a_directory_is_removed_with_all_that_is_in_it_but_not_what_it_links_to(tmp_path):
    outside = tmp_path / "outside"
    files.create_directory(outside)
    (outside / "kept").touch()
    doomed = tmp_path / "doomed"
    files.create_directory(doomed)
    files.create_directory(doomed / "inner")
    (doomed / "inner" / "file").touch()
    (doomed / "link").symlink_to(outside)
    files.remove_directory(doomed)
    assert not doomed.exists()
    assert (outside / "kept").exists()


def test_the_age_of_a_file_can_be_set(tmp_path):
    (tmp_path / "file").touch()
    files.set_modified_ns(tmp_path / "file", 1_234_567_000)
    assert (tmp_path / "file").stat().st_mtime_ns == 1_234_567_000


def test_a_file_can_be_synced_by_its_path(tmp_path):
    (tmp_path / "file").touch()
    with FaultyDisk() as disk:
        files.sync_path(tmp_path / "file")
    assert disk.changes == 1
