"""What a broker does to its logs by day and by night: every kind of write once.

To be played on a disk, or a system, that fails at one call after the other.
"""

from tests.support.crash_host import COMPACTED, PLAIN, ROOMY
from tests.support.crash_scenarios import Scenario
from tests.support.crash_workload import Workload
from tests.support.logs import NOW_MS


def a_day(work: Workload) -> None:
    host = work.host
    work.append_with_sequence(PLAIN, 1, count=2, timestamp=NOW_MS + 40)
    work.append(PLAIN, size=200, timestamp=NOW_MS + 50)
    work.end_transaction(PLAIN, 11, commit=False)
    host.flush(PLAIN)
    host.checkpoint()
    host.truncate(PLAIN, host.log(PLAIN).segments.active.base_offset - 1)
    work.leader_epoch += 1
    work.append(PLAIN, count=3)
    host.delete_records(PLAIN, 12)
    host.retain()
    work.append(ROOMY, size=100)
    host.roll(ROOMY)
    host.checkpoint()


def a_last_day(work: Workload) -> None:
    """At its end the broker stops."""
    a_day(work)
    work.host.close()


def a_night(work: Workload) -> None:
    host = work.host
    work.end_transaction(COMPACTED, 12, commit=True)
    work.end_transaction(COMPACTED, 11, commit=True)
    host.roll(COMPACTED)
    host.compact()
    host.remove()
    host.restart(PLAIN, 7)
    work.append(PLAIN)
    host.recreate(PLAIN)


DAY = Scenario(a_day, (PLAIN,))
LAST_DAY = Scenario(a_last_day, (PLAIN,))
NIGHT = Scenario(a_night, (COMPACTED,))
