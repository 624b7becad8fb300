"""How far back recovery goes: to the beginning of the segment that holds the recovery point."""

import pytest

from odradek.storage.log_loader import Findings
from tests.support.damage import flip_in_batch
from tests.support.logs import append, opened, recovered

IN_RECORDS = 65


@pytest.fixture
def log(tmp_path):
    """Two segments of four batches each, of one record each."""
    log = opened(tmp_path / "events-0", segment_bytes=700)
    for number in range(8):
        append(log, b"%d" % number + bytes(100))
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    return log


def test_damage_before_the_recovery_point_is_cut_in_the_segment_that_holds_it(log):
    flip_in_batch(log.segments.at(4), 1, IN_RECORDS)
    findings = Findings()
    assert recovered(log.directory, findings, recovery_point=7).end_offset == 5
    assert findings.removed_bytes > 0


def test_damage_in_an_earlier_segment_is_left_as_it_is(log):
    flip_in_batch(log.segments.at(0), 1, IN_RECORDS)
    findings = Findings()
    assert recovered(log.directory, findings, recovery_point=7).end_offset == 8
    assert findings.removed_bytes == 0
