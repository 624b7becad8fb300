"""A file that stays open for as long as somebody refers to it."""

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


def test_it_is_closed_when_nobody_refers_to_it_any_more(tmp_path):
    file = OpenFile(tmp_path / "a.log", writable=True)
    descriptor = file.fileno()
    another = file
    del file
    assert is_open(descriptor)
    del another
    assert not is_open(descriptor)


def test_a_region_keeps_it_open_beyond_its_removal(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"batches")
    file = OpenFile(path, writable=False)
    region = FileRegion(file.descriptor, 0, 7, keeper=file)
    del file
    path.unlink()
    assert files.read_at(region.descriptor, region.length, region.position) == b"batches"


def test_what_is_opened_for_reading_must_be_there_and_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        OpenFile(tmp_path / "a.log", writable=False)
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_opened_closes_no_descriptor(tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(files.system, "close", closed.append)
    with pytest.raises(IsADirectoryError):
        OpenFile(tmp_path, writable=True)
    assert closed == []
