"""FaultyDisk fails one chosen system call; files.replace() stays atomic on it."""

import errno
import os

import pytest

from odradek.storage import files
from tests.support.faulty_disk import CHANGING, FaultyDisk
from tests.support.power_cut import PowerCut


def scenario(root):
    """Make each changing call once, and some calls that change nothing."""
    files.create_directory(root / "d")
    descriptor = files.open_for_writing(root / "d" / "file")
    files.write_at(descriptor, [b"01", b"23456789"], 0)
    files.read_at(descriptor, 10, 0)
    files.system.ftruncate(descriptor, 5)
    files.system.fallocate(descriptor, 0, 100)
    files.sync(descriptor)
    files.system.close(descriptor)
    files.system.close(files.open_for_writing(root / "d" / "file"))
    files.set_modified_ns(root / "d" / "file", 1)
    files.rename(root / "d" / "file", root / "d" / "renamed")
    files.remove_directory(root / "d")


CALLS = [
    *("mkdir", "sync_directory", "open", "pwritev", "ftruncate", "fallocate", "fsync", "utime"),
    *("rename", "unlink", "rmdir"),
]


def test_only_changing_calls_are_counted(tmp_path):
    with FaultyDisk() as disk:
        scenario(tmp_path)
    assert disk.changes == len(CALLS)
    assert disk.failed_calls == []
    assert set(CALLS) == CHANGING


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_requested_call_fails(tmp_path, error):
    for n, call in enumerate(CALLS, start=1):
        root = tmp_path / str(n)
        root.mkdir()
        with FaultyDisk(fail_at=n, error=error) as disk, pytest.raises(OSError) as caught:  # noqa: PT011
            scenario(root)
        assert caught.value.errno == error
        assert disk.failed_calls == [call]
        assert errno.errorcode[error] in repr(disk)


def test_failing_call_changes_nothing(tmp_path):
    with FaultyDisk(fail_at=1), pytest.raises(OSError, match="error"):
        files.create_directory(tmp_path / "d")
    assert list(tmp_path.iterdir()) == []


def test_later_calls_work_again_unless_the_fault_persists(tmp_path):
    with FaultyDisk(fail_at=1), pytest.raises(OSError, match="error"):
        files.replace(tmp_path / "file", b"1")
    with FaultyDisk(fail_at=2, persists=True) as disk:
        for _ in range(3):
            with pytest.raises(OSError, match="error"):
                files.replace(tmp_path / "file", b"1")
    assert disk.failed_calls == ["pwritev", "open", "open"]


def test_short_write_writes_a_part_before_the_error(tmp_path):
    descriptor = files.open_for_writing(tmp_path / "file")
    with FaultyDisk(fail_at=1, error=errno.ENOSPC, short_write=True) as disk:
        with pytest.raises(OSError, match="No space"):
            files.write_at(descriptor, [b"0123", b"4567"], 0)
        assert os.pread(descriptor, 10, 0) == b"0123"
        assert disk.failed_calls == ["pwritev"]
        files.write_at(descriptor, [b"0123", b"4567"], 0)
    assert os.pread(descriptor, 10, 0) == b"01234567"
    os.close(descriptor)


def test_short_write_of_one_byte_writes_nothing(tmp_path):
    descriptor = files.open_for_writing(tmp_path / "file")
    with FaultyDisk(fail_at=1, short_write=True), pytest.raises(OSError, match="error"):
        files.write_at(descriptor, [b"0"], 0)
    assert os.pread(descriptor, 10, 0) == b""
    os.close(descriptor)


def test_counted_calls_can_be_chosen(tmp_path):
    (tmp_path / "file").write_bytes(b"0123")
    with FaultyDisk(fail_at=1, counting={"pread"}), pytest.raises(OSError, match="error"):
        files.read(tmp_path / "file")
    with FaultyDisk(fail_at=2, counting={"fsync"}) as disk:
        files.replace(tmp_path / "file", b"1")
        with pytest.raises(OSError, match="error"):
            files.replace(tmp_path / "file", b"2")
    assert disk.failed_calls == ["fsync"]


@pytest.mark.parametrize("short_write", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_replace_is_atomic_when_the_disk_and_then_the_power_fail(tmp_path, seed, short_write):
    for n in range(1, 6):
        files.replace(tmp_path / "file", b"old content")
        with PowerCut(tmp_path, seed) as power:
            disk = FaultyDisk(fail_at=n, short_write=short_write, persists=True, over=power)
            with disk, pytest.raises(OSError, match="error"):
                files.replace(tmp_path / "file", b"new content, longer")
            assert files.read(tmp_path / "file") in (b"old content", b"new content, longer"), disk
            power.cut()
        assert files.read(tmp_path / "file") in (b"old content", b"new content, longer"), power
