"""Power cuts during a truncation or soon after it."""

import pytest

from odradek.storage.log_truncation import truncate_fully_and_start_at, truncate_to
from tests.support.faulty_disk import SYNCS, FaultyDisk
from tests.support.logs import NOW_MS, append, opened, records_batch, records_from, recovered
from tests.support.power_cut import PowerCut, PowerIsOff

SMALL = {"segment_bytes": 900, "index_interval_bytes": 100}
# Later appends stay in one segment: of two unsynced segments, the second may survive without the
# end of the first, and this cannot be detected.
LARGE = {"segment_bytes": 6000, "index_interval_bytes": 100}
OLD = [b"old %d" % number + bytes(200) for number in range(7)]
NEW = [b"new %d" % number + bytes(200) for number in range(4)]
TRUNCATION_OFFSET, LOG_END, RESTART_OFFSET = 1, len(OLD), 100
SEEDS = range(3)


def fill(directory):
    log = opened(directory, **SMALL)
    for value in OLD:
        append(log, value)
    log.close(now_ms=NOW_MS)


def create_empty(directory):
    opened(directory, log_start_offset=RESTART_OFFSET, **SMALL).close_handlers()


def runs_to_completion(scenario, directory, known_end):
    """Whether the scenario completed before the power went off."""
    try:
        scenario(opened(directory, recovery_point=known_end, **LARGE))
    except PowerIsOff:
        return False
    return True


def values_after_power_cuts(
    tmp_path, seed, scenario, *, prepare=fill, known_end=LOG_END, recovery_point=TRUNCATION_OFFSET
):
    """Yield the values read after a power cut at each change that the scenario makes."""
    off_at, is_complete = 0, False
    while not is_complete:
        off_at += 1
        directory = tmp_path / f"events-{off_at}"
        prepare(directory)
        with PowerCut(directory, seed, off_at=off_at) as disk:
            is_complete = runs_to_completion(scenario, directory, known_end)
            disk.cut()
            reopened = recovered(directory, recovery_point=recovery_point, **SMALL)
        values = [record.value for record in records_from(reopened)]
        assert len(values) == reopened.log_end_offset - reopened.log_start_offset, str(disk)
        yield values


@pytest.mark.parametrize("seed", SEEDS)
def test_remaining_records_are_a_prefix_of_the_old_log(tmp_path, seed):
    for values in values_after_power_cuts(
        tmp_path, seed, lambda log: truncate_to(log, TRUNCATION_OFFSET, now_ms=NOW_MS)
    ):
        assert len(values) >= TRUNCATION_OFFSET
        assert values == OLD[: len(values)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_old_record_follows_a_new_one(tmp_path, seed):
    def truncate_and_append(log):
        truncate_to(log, TRUNCATION_OFFSET, now_ms=NOW_MS)
        for value in NEW:
            append(log, value)

    for values in values_after_power_cuts(tmp_path, seed, truncate_and_append):
        assert len(values) >= TRUNCATION_OFFSET
        assert values in (OLD[: len(values)], (OLD[:TRUNCATION_OFFSET] + NEW)[: len(values)])


@pytest.mark.parametrize("seed", SEEDS)
def test_fully_truncated_log_has_only_old_or_only_new_records(tmp_path, seed):
    def truncate_fully(log):
        truncate_fully_and_start_at(log, RESTART_OFFSET)
        append(log, NEW[0])

    for values in values_after_power_cuts(tmp_path, seed, truncate_fully, recovery_point=0):
        assert values in (OLD[: len(values)], [NEW[0]])


@pytest.mark.parametrize("seed", SEEDS)
def test_log_truncated_to_zero_then_fully_has_only_old_or_only_new_records(tmp_path, seed):
    def truncate_fully(log):
        truncate_to(log, 0, now_ms=NOW_MS)
        truncate_fully_and_start_at(log, RESTART_OFFSET)
        append(log, NEW[0])

    for values in values_after_power_cuts(tmp_path, seed, truncate_fully, recovery_point=0):
        assert values in (OLD[: len(values)], [NEW[0]])


@pytest.mark.parametrize("seed", SEEDS)
def test_batch_that_begins_before_an_empty_log_is_whole_or_missing(tmp_path, seed):
    def append_overlapping_batch(log):
        batch = records_batch(*NEW, base_offset=RESTART_OFFSET - 2)
        with FaultyDisk(counting=SYNCS) as disk:
            log.append_as_follower(batch, now_ms=NOW_MS)
        assert disk.changes == 0

    runs_to_completion = {"known_end": RESTART_OFFSET, "recovery_point": RESTART_OFFSET}
    for values in values_after_power_cuts(
        tmp_path, seed, append_overlapping_batch, prepare=create_empty, **runs_to_completion
    ):
        assert values in ([], NEW)
