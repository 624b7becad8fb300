"""OpenFile stays open until the last reference to it is gone."""

import os

import pytest

from odradek.protocol.file_region import FileRegion
from odradek.storage import files
from odradek.storage.open_file import OpenFile


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_file_is_closed_with_its_last_reference(tmp_path):
    file = OpenFile(tmp_path / "a.log", writable=True)
    descriptor = file.fileno()
    another = file
    del file
    assert is_open(descriptor)
    del another
    assert not is_open(descriptor)


def test_region_keeps_a_removed_file_open(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"batches")
    file = OpenFile(path, writable=False)
    region = FileRegion(file.descriptor, 0, 7, file=file)
    del file
    path.unlink()
    assert files.read_at(region.descriptor, region.length, region.position) == b"batches"


def test_open_for_reading_does_not_create_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        OpenFile(tmp_path / "a.log", writable=False)
    assert list(tmp_path.iterdir()) == []


def test_failed_open_closes_no_descriptor(tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(files.system, "close", closed.append)
    with pytest.raises(IsADirectoryError):
        OpenFile(tmp_path, writable=True)
    assert closed == []
