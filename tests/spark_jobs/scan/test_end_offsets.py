"""Where logs end: at the high watermark, or behind the last batch."""

import pytest

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.scan.log_ends import log_ends
from odradek.spark_jobs.scan.options import options_of
from odradek.storage.offset_checkpoints import LOG_START_OFFSETS
from tests.support.batches import batch_of
from tests.support.scans import TOPIC, LogDirectory


@pytest.fixture
def directory(tmp_path):
    """Offsets 0 to 39 in batches of two, with a gap and a torn tail."""
    directory = LogDirectory(tmp_path)
    batches = [bytes(batch_of(b"one", b"two", base_offset=at)) for at in range(0, 40, 2)]
    directory.write(0, batches[:10], indexed=True)
    directory.write(20, [*batches[10:12], *batches[13:], batches[0][:50]], indexed=True)
    return directory


def end_of(directory):
    (end,) = log_ends(options_of({"path": str(directory.path)})).values()
    return end


def test_the_high_watermark_is_the_end(directory):
    directory.set_high_watermark(17)
    assert log_ends(options_of({"path": str(directory.path)})) == {TopicPartition(TOPIC, 0): 17}


def test_where_it_is_not_known_the_last_batch_is(directory):
    assert end_of(directory) == 40


def test_a_log_that_retention_has_emptied_ends_where_it_begins(directory):
    for path in directory.partition.iterdir():
        path.unlink()
    directory.write(40, [])
    assert end_of(directory) == 40
    LOG_START_OFFSETS.write(directory.path, {TopicPartition(TOPIC, 0): 50})
    assert end_of(directory) == 50
