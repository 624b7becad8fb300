"""The offset to which a follower truncates, by the leader's epoch end offsets."""

import pytest

from odradek.broker.replicas.truncation import truncation_offset
from odradek.storage.leader_epoch_file_cache import UNDEFINED_EPOCH_END, EpochEnd
from tests.support.logs import NOW_MS, opened, records_batch

#: The leader's last epoch up to ours, its end offset there, and the truncation offset.  Our log
#: has epoch 2 from 0 on, 4 from 3 on, 6 from 5 on, and ends at 8.
CASES = {
    "leader has less of our last epoch": (6, 7, 7),
    "leader has more of our last epoch": (6, 99, 8),
    "leader has less of an earlier epoch": (4, 4, 4),
    "leader has more of an earlier epoch": (4, 6, 5),
    "epoch between two of ours": (5, 9, 5),
    "epoch before all of ours": (1, 9, 0),
    "epoch after all of ours": (7, 6, 6),
}


@pytest.fixture
def log(tmp_path):
    log = opened(tmp_path)
    for epoch, count in ((2, 3), (4, 2), (6, 3)):
        for _ in range(count):
            log.append_as_leader(records_batch(b"v"), leader_epoch=epoch, now_ms=NOW_MS)
    log.high_watermark = 2
    yield log
    log.close_handlers()


@pytest.mark.parametrize("case", CASES)
def test_log_is_truncated_where_it_diverges_from_the_leader(log, case):
    epoch, end_offset, expected = CASES[case]
    assert truncation_offset(log, EpochEnd(epoch, end_offset)) == expected


def test_log_is_truncated_to_the_high_watermark_without_an_epoch_end(log):
    assert truncation_offset(log, UNDEFINED_EPOCH_END) == 2
