"""A flood of garbage does not fill the disk."""

from odradek.broker.network.failure_log import LINES_PER_SECOND, FailureLog


def test_only_a_few_lines_are_written_in_a_second_and_the_others_counted(caplog):
    now, due = [5.0], []
    failures = FailureLog(lambda: now[0], lambda seconds, tell: due.append((seconds, tell)))
    for number in range(1000):
        failures.warn("%d is bad", number)
    assert len(caplog.records) == LINES_PER_SECOND
    assert caplog.records[0].message == "0 is bad"
    ((seconds, tell),) = due
    now[0] += seconds
    tell()
    left_out = f"{1000 - LINES_PER_SECOND} more like these were not written"
    assert caplog.records[-1].message == left_out
    failures.warn("and another")
    assert caplog.records[-1].message == "and another"
    assert len(due) == 1
