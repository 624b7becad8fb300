"""``SegmentReader`` gives the same batches for any size of chunks."""

import pytest

from odradek.spark_jobs.scan import file_access, segment_reader
from tests.support.batches import batch_of
from tests.support.scans import LogDirectory


@pytest.mark.parametrize("chunk_bytes", [1, 7, 26, 27, 61, 100])
def test_batch_across_chunks_is_read_whole(tmp_path, monkeypatch, chunk_bytes):
    monkeypatch.setattr(file_access, "LOCAL_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(
        segment_reader.SegmentReader.__init__, "__kwdefaults__", {"group_bytes": 400}
    )
    batches, offset = [], 0
    for count in [9, 1, 4, 7, 2, 3] * 20:  # offsets that differ from the buffer's old content
        batches.append(batch_of(*[b"value"] * count, base_offset=offset))
        offset += count
    directory = LogDirectory(tmp_path)
    directory.write(0, batches)
    scanned = directory.scan(columns="offset")
    assert scanned.offsets == list(range(offset))
    assert scanned.damages == []
