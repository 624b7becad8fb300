"""Operation sequences of unified_log_properties.py in which a log once differed from its model."""

from contextlib import contextmanager

import pytest

from odradek.protocol.records.compression import Codec
from tests.storage.unified_log_properties import LargeBatchesAgainstAList, LogAgainstAList
from tests.support.logs import NOW_MS

NO_PRODUCER = -1
#: Without values, so one large segment holds all records and no producer snapshot is written.
ONE = [(NOW_MS, b"a", None)]
THREE = 3 * ONE


@contextmanager
def checked_against_model(machine):
    """Run the operations, then check every invariant of the model."""
    state = machine()
    try:
        yield state
        state.offsets_agree()
        state.records_agree()
        state.epochs_agree()
        state.look_around()
    finally:
        state.teardown()


@pytest.fixture(params=[LogAgainstAList, LargeBatchesAgainstAList])
def machine(request):
    return request.param


def test_truncating_a_marker_of_an_expired_producer(machine):
    with checked_against_model(machine) as state:
        state.append_plainly([ONE, THREE], codec=Codec.NONE)
        state.reopen_after_a_crash(loses_checkpoints=False, back=0)
        state.truncate_an_abort_marker(11, THREE)
        state.end_a_transaction(11, is_commit=False, bumps=False)
        state.truncate_an_abort_marker(12, ONE)
        state.take_over_several([(0, THREE, NO_PRODUCER), (0, THREE, 12), (0, ONE, 1)])
        state.compact_at_once(waited_ms=0)
        state.end_a_transaction(12, is_commit=False, bumps=True)
        state.wait(is_long=True)
        state.truncate_end(back=3)
        assert state.log.last_stable_offset < state.log.high_watermark


def test_crash_after_an_epoch_restarts_at_a_later_offset_following_truncation(machine):
    with checked_against_model(machine) as state:
        state.take_over_several([(0, ONE, NO_PRODUCER)])
        state.append_as_a_new_leader(ONE)
        state.append_plainly([ONE, THREE, THREE], codec=Codec.NONE)
        state.flush()
        state.truncate_end(back=8)
        state.take_over_several([(1, ONE, NO_PRODUCER)])
        assert state.log.leader_epoch_cache.entries == ((0, 0), (1, 2))
        state.reopen_after_a_crash(loses_checkpoints=False, back=0)


def test_emptied_log_restarts_before_its_cleaner_checkpoint(machine):
    with checked_against_model(machine) as state:
        state.append_as_a_new_leader(THREE)
        state.compact_at_once(waited_ms=0)
        state.delete_old_segments(later_ms=60)
        assert state.log.log_start_offset == 3
        state.take_over_what_is_there(back=3, records=[*THREE, (NOW_MS, b"b", None)])
        assert state.log.log_start_offset == 0
        state.compact_at_once(waited_ms=0)
