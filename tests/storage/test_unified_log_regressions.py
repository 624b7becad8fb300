"""Histories in which a log once differed from its model, as log_properties.py found them."""

from contextlib import contextmanager

import pytest

from odradek.protocol.records.compression import Codec
from tests.storage.log_properties import LargeBatchesAgainstAList, LogAgainstAList
from tests.support.logs import NOW_MS

NOBODY = -1
#: Without values, so that a large segment holds all: no snapshot tells of a transaction.
ONE = [(NOW_MS, b"a", None)]
THREE = 3 * ONE


@contextmanager
def against_a_list(machine):
    """What happens, with a look at everything at the end."""
    state = machine()
    try:
        yield state
        state.the_ends_agree()
        state.all_records_are_there()
        state.epochs_agree()
        state.look_around()
    finally:
        state.teardown()


@pytest.fixture(params=[LogAgainstAList, LargeBatchesAgainstAList])
def machine(request):
    return request.param


def test_a_marker_is_cut_off_when_its_producer_has_been_forgotten(machine):
    with against_a_list(machine) as state:
        state.append_plainly([ONE, THREE], codec=Codec.NONE)
        state.reopen_after_a_crash(loses_checkpoints=False, back=0)
        state.cut_off_an_abort(11, THREE)
        state.end_a_transaction(11, is_commit=False, bumps=False)
        state.cut_off_an_abort(12, ONE)
        state.take_over_several([(0, THREE, NOBODY), (0, THREE, 12), (0, ONE, 1)])
        state.compact_at_once(waited_ms=0)
        state.end_a_transaction(12, is_commit=False, bumps=True)
        state.wait(is_long=True)
        state.cut_the_end(back=3)
        assert state.log.last_stable_offset < state.log.high_watermark


def test_an_epoch_begins_later_after_a_cut_and_then_the_broker_crashes(machine):
    with against_a_list(machine) as state:
        state.take_over_several([(0, ONE, NOBODY)])
        state.append_as_a_new_leader(ONE)
        state.append_plainly([ONE, THREE, THREE], codec=Codec.NONE)
        state.flush()
        state.cut_the_end(back=8)
        state.take_over_several([(1, ONE, NOBODY)])
        assert state.log.epochs.entries == ((0, 0), (1, 2))
        state.reopen_after_a_crash(loses_checkpoints=False, back=0)


def test_an_emptied_log_begins_again_before_where_it_was_compacted_to(machine):
    with against_a_list(machine) as state:
        state.append_as_a_new_leader(THREE)
        state.compact_at_once(waited_ms=0)
        state.delete_old_segments(later_ms=60)
        assert state.log.start_offset == 3
        state.take_over_what_is_there(back=3, records=[*THREE, (NOW_MS, b"b", None)])
        assert state.log.start_offset == 0
        state.compact_at_once(waited_ms=0)
