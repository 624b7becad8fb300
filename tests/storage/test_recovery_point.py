"""Recovery starts at the beginning of the segment that holds the recovery point."""

import pytest

from odradek.storage.log_loader import LogLoadReport
from tests.support.damage import flip_in_batch
from tests.support.logs import append, opened, recovered

RECORDS_POSITION = 65


@pytest.fixture
def log(tmp_path):
    """Two segments of four batches each, of one record each."""
    log = opened(tmp_path / "events-0", segment_bytes=700)
    for number in range(8):
        append(log, b"%d" % number + bytes(100))
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    return log


def test_damage_in_the_segment_of_the_recovery_point_is_truncated(log):
    flip_in_batch(log.segments.get(4), 1, RECORDS_POSITION)
    load_report = LogLoadReport()
    assert recovered(log.directory, load_report, recovery_point=7).log_end_offset == 5
    assert load_report.removed_bytes > 0


def test_damage_in_an_earlier_segment_is_left_alone(log):
    flip_in_batch(log.segments.get(0), 1, RECORDS_POSITION)
    load_report = LogLoadReport()
    assert recovered(log.directory, load_report, recovery_point=7).log_end_offset == 8
    assert load_report.removed_bytes == 0
