"""Walking over a segment: how the bytes come in makes no difference."""

import pytest

from odradek.spark_jobs.scan import file_access, walk
from tests.support.batches import batch_of
from tests.support.scans import LogDirectory


@pytest.mark.parametrize("piece_bytes", [1, 7, 26, 27, 61, 100])
def test_batches_that_lie_across_pieces_are_read_as_a_whole(tmp_path, monkeypatch, piece_bytes):
    monkeypatch.setattr(file_access, "LOCAL_PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(walk.Walk.__init__, "__kwdefaults__", {"group_bytes": 400})
    stored, offset = [], 0
    for count in [9, 1, 4, 7, 2, 3] * 20:  # offsets that do not fit in with what the buffer held
        stored.append(batch_of(*[b"value"] * count, base_offset=offset))
        offset += count
    directory = LogDirectory(tmp_path)
    directory.write(0, stored)
    found = directory.scan(columns="offset")
    assert found.offsets == list(range(offset))
    assert found.damages == []
