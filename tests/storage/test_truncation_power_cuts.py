"""The power goes while a log is truncated, or soon after it."""

import pytest

from odradek.storage.log_truncation import truncate, truncate_fully
from tests.support.faulty_disk import SYNCS, FaultyDisk
from tests.support.logs import NOW_MS, append, opened, records_batch, records_from, recovered
from tests.support.power_cut import PowerCut, PowerIsOff

SMALL = {"segment_bytes": 900, "index_interval_bytes": 100}
# What is written afterwards stays in one segment: of two that were not synced, the second may be
# left without the end of the first, and nobody can tell.
LARGE = {"segment_bytes": 6000, "index_interval_bytes": 100}
OLD = [b"old %d" % number + bytes(200) for number in range(7)]
NEW = [b"new %d" % number + bytes(200) for number in range(4)]
CUT, END, ANEW = 1, len(OLD), 100
SEEDS = range(3)


def fill(directory):
    log = opened(directory, **SMALL)
    for value in OLD:
        append(log, value)
    log.close(now_ms=NOW_MS)


def begin(directory):
    opened(directory, start_offset=ANEW, **SMALL).abandon()


def ends(scenario, directory, known_end):
    """Whether the scenario came to its end before the power went."""
    try:
        scenario(opened(directory, recovery_point=known_end, **LARGE))
    except PowerIsOff:
        return False
    return True


def left_of(tmp_path, seed, scenario, *, made=fill, known_end=END, recovery_point=CUT):
    """What is read after a power cut at each change that the scenario makes, in turn."""
    off_at, is_over = 0, False
    while not is_over:
        off_at += 1
        directory = tmp_path / f"events-{off_at}"
        made(directory)
        with PowerCut(directory, seed, off_at=off_at) as disk:
            is_over = ends(scenario, directory, known_end)
            disk.cut()
            again = recovered(directory, recovery_point=recovery_point, **SMALL)
        values = [record.value for record in records_from(again)]
        assert len(values) == again.end_offset - again.start_offset, str(disk)
        yield values


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_left_is_a_beginning_of_the_old_log(tmp_path, seed):
    for values in left_of(tmp_path, seed, lambda log: truncate(log, CUT, now_ms=NOW_MS)):
        assert len(values) >= CUT
        assert values == OLD[: len(values)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_old_record_follows_a_new_one(tmp_path, seed):
    def write_again(log):
        truncate(log, CUT, now_ms=NOW_MS)
        for value in NEW:
            append(log, value)

    for values in left_of(tmp_path, seed, write_again):
        assert len(values) >= CUT
        assert values in (OLD[: len(values)], (OLD[:CUT] + NEW)[: len(values)])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_that_begins_anew_has_records_of_one_kind(tmp_path, seed):
    def begin_anew(log):
        truncate_fully(log, ANEW)
        append(log, NEW[0])

    for values in left_of(tmp_path, seed, begin_anew, recovery_point=0):
        assert values in (OLD[: len(values)], [NEW[0]])


@pytest.mark.parametrize("seed", SEEDS)
def test_so_has_one_that_is_cut_to_nothing_before(tmp_path, seed):
    def begin_anew(log):
        truncate(log, 0, now_ms=NOW_MS)
        truncate_fully(log, ANEW)
        append(log, NEW[0])

    for values in left_of(tmp_path, seed, begin_anew, recovery_point=0):
        assert values in (OLD[: len(values)], [NEW[0]])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_that_begins_before_an_empty_log_is_there_whole_or_not_at_all(tmp_path, seed):
    def take(log):
        batch = records_batch(*NEW, base_offset=ANEW - 2)
        with FaultyDisk(counting=SYNCS) as disk:
            log.append_as_follower(batch, now_ms=NOW_MS)
        assert disk.changes == 0

    ends = {"known_end": ANEW, "recovery_point": ANEW}
    for values in left_of(tmp_path, seed, take, made=begin, **ends):
        assert values in ([], NEW)
