"""``find_end_offsets``: the high watermark, or the end of the last batch."""

import pytest

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.scan.end_offsets import find_end_offsets
from odradek.spark_jobs.scan.options import parse_options
from odradek.storage.offset_checkpoints import LOG_START_OFFSETS
from tests.support.batches import batch_of
from tests.support.scans import TOPIC, LogDirectory


@pytest.fixture
def directory(tmp_path):
    """Offsets 0 to 39 in batches of two, with a gap and a torn tail."""
    directory = LogDirectory(tmp_path)
    batches = [bytes(batch_of(b"one", b"two", base_offset=offset)) for offset in range(0, 40, 2)]
    directory.write(0, batches[:10], indexed=True)
    directory.write(20, [*batches[10:12], *batches[13:], batches[0][:50]], indexed=True)
    return directory


def end_of(directory):
    (end,) = find_end_offsets(parse_options({"path": str(directory.path)})).values()
    return end


def test_high_watermark_is_the_end(directory):
    directory.set_high_watermark(17)
    assert find_end_offsets(parse_options({"path": str(directory.path)})) == {
        TopicPartition(TOPIC, 0): 17
    }


def test_without_a_high_watermark_the_last_batch_is_the_end(directory):
    assert end_of(directory) == 40


def test_log_emptied_by_retention_ends_at_its_start_offset(directory):
    for path in directory.partition.iterdir():
        path.unlink()
    directory.write(40, [])
    assert end_of(directory) == 40
    LOG_START_OFFSETS.write(directory.path, {TopicPartition(TOPIC, 0): 50})
    assert end_of(directory) == 50
