"""The rate limit of warnings about connections."""

from odradek.broker.network.failure_log import LINES_PER_SECOND, FailureLog


def test_warnings_are_limited_per_second_and_the_suppressed_ones_counted(caplog):
    now, scheduled = [5.0], []
    failure_log = FailureLog(
        lambda: now[0], lambda seconds, report: scheduled.append((seconds, report))
    )
    for number in range(1000):
        failure_log.warn("%d is bad", number)
    assert len(caplog.records) == LINES_PER_SECOND
    assert caplog.records[0].message == "0 is bad"
    ((seconds, report),) = scheduled
    now[0] += seconds
    report()
    expected = f"Suppressed {1000 - LINES_PER_SECOND} similar warning(s)"
    assert caplog.records[-1].message == expected
    failure_log.warn("and another")
    assert caplog.records[-1].message == "and another"
    assert len(scheduled) == 1
