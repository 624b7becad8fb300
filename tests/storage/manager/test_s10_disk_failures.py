"""S10: a full disk, a broken one, one that has become read-only, and two brokers on one.

Producing fails with KAFKA_STORAGE_ERROR and the process goes on; the directory stays offline until
a restart, when everything that was acknowledged is there; other directories notice nothing.
"""

import errno
import resource
import subprocess
import sys

import pytest

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError, code_of
from odradek.storage import clean_shutdown
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_work import carry_out
from odradek.storage.manager.lock import DirectoryLocked
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_managers import (
    EVENTS,
    ORDERS,
    Notebook,
    carry_all,
    contents,
    managing,
    retain,
    values_in,
    written,
)
from tests.support.logs import NOW_MS, records_batch
from tests.support.power_cut import PowerCut

FAILURES = [errno.ENOSPC, errno.EIO, errno.EROFS]
SETTINGS = {"segment_bytes": 500, "segment_index_bytes": 4096}


class Producing:
    """What a broker does for clients, and what the clients have been told."""

    def __init__(self, manager, *, flushes=False):
        self.manager = manager
        self.acknowledged = {EVENTS: [], ORDERS: []}
        self.refused = {EVENTS: [], ORDERS: []}
        self.codes = set()
        self._flushes = flushes

    def run(self, count=8):
        for number in range(count):
            for partition in (EVENTS, ORDERS):
                self._produce(partition, b"%s %d" % (partition.topic.encode(), number))
            if number % 3 == 2:
                self._look_after_logs()

    def _produce(self, partition, value):
        hosted = self.manager.find(partition)
        try:
            with hosted as log:
                log.append_as_leader(
                    records_batch(value + bytes(100)), leader_epoch=0, now_ms=NOW_MS
                )
                log.advance_high_watermark(log.end_offset)
            if self._flushes:
                carry_out(hosted.plan_flush(now_ms=NOW_MS))
            self.acknowledged[partition].append(value)
        except KafkaStorageError as failure:
            self.codes.add(code_of(failure))
            self.refused[partition].append(value)

    def _look_after_logs(self):
        works = [*self.manager.upkeep.flushes_due(NOW_MS), *self.manager.checkpoints()]
        for work in works:
            try:
                carry_out(work)
            except LogDirectoryOffline as failure:
                self.codes.add(code_of(failure))


def started(tmp_path, observer=None):
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer, **SETTINGS)
    for partition in (EVENTS, ORDERS):
        manager.create(partition, now_ms=NOW_MS)
    return manager


def found_in(manager):
    return {
        partition: [value.rstrip(b"\0") for value in values]
        for partition, values in contents(manager).items()
    }


def check_nothing_lost(producing, found):
    """All that was acknowledged, in order; then perhaps the first that was refused."""
    for partition, acknowledged in producing.acknowledged.items():
        values = found.get(partition, [])
        extra = values[len(acknowledged) :]
        assert values[: len(acknowledged)] == acknowledged
        assert extra in ([], producing.refused[partition][:1])


def changes_while_producing(tmp_path, **options):
    with PowerCut(tmp_path, 0) as disk:
        manager = started(tmp_path)
        before = disk.changes
        Producing(manager, **options).run()
        return disk.changes - before


@pytest.mark.parametrize(
    ("error", "short_write"), [(errno.ENOSPC, True), (errno.EIO, False), (errno.EROFS, False)]
)
def test_s10_at_whichever_change_a_disk_fails_nothing_acknowledged_is_lost(
    tmp_path, error, short_write
):
    (tmp_path / "counted").mkdir()
    for n in range(1, changes_while_producing(tmp_path / "counted") + 1):
        root = tmp_path / str(n)
        root.mkdir()
        # Nothing is really synced on it, which would only take time.
        with PowerCut(root, 0):
            observer = Notebook()
            producing = Producing(started(root, observer))
            with FaultyDisk(fail_at=n, error=error, short_write=short_write) as disk:
                producing.run()
            assert producing.codes == {ErrorCode.KAFKA_STORAGE_ERROR.code}, disk
            ((failed, is_last),) = observer.failed
            assert not is_last
            unharmed = ORDERS if failed.name == "a" else EVENTS
            assert len(producing.acknowledged[unharmed]) == 8
            producing.manager.abandon()
            healed = managing(root / "a", root / "b", **SETTINGS)
            check_nothing_lost(producing, found_in(healed))
            assert found_in(healed)[unharmed] == producing.acknowledged[unharmed]


def test_s10_what_was_synced_before_the_disk_failed_survives_a_power_cut_too(tmp_path):
    (tmp_path / "counted").mkdir()
    for n in range(1, changes_while_producing(tmp_path / "counted", flushes=True) + 1):
        root = tmp_path / str(n)
        root.mkdir()
        with PowerCut(root, n) as power:
            producing = Producing(started(root), flushes=True)
            with FaultyDisk(fail_at=n, error=errno.EIO):
                producing.run()
            power.cut()
            healed = managing(root / "a", root / "b", **SETTINGS)
            check_nothing_lost(producing, found_in(healed))
            healed.abandon()


@pytest.mark.parametrize("error", FAILURES, ids=errno.errorcode.get)
def test_s10_a_disk_that_fails_for_good_is_left_alone(tmp_path, error):
    observer = Notebook()
    producing = Producing(started(tmp_path, observer))
    producing.run(count=1)
    with FaultyDisk(fail_at=1, error=error, persists=True) as disk:
        producing.run(count=3)
        assert observer.failed == [(tmp_path / "a", False), (tmp_path / "b", True)]
        failed_calls = list(disk.failed_calls)
        assert len(failed_calls) == 2
        producing.run(count=3)
        carry_all(producing.manager.checkpoints())
        carry_all(producing.manager.upkeep.flushes_due(NOW_MS))
        retain(producing.manager)
        producing.manager.close(now_ms=NOW_MS)
        assert disk.failed_calls == failed_calls
    assert {clean_shutdown.read(tmp_path / name) for name in ("a", "b")} == {None}
    check_nothing_lost(producing, found_in(managing(tmp_path / "a", tmp_path / "b", **SETTINGS)))


def test_s10_a_disk_that_cannot_be_read_is_offline_for_readers_and_writers(tmp_path):
    observer = Notebook()
    manager = started(tmp_path, observer)
    for value in (b"a", b"at the end, which is found without reading"):
        written(manager, EVENTS, value)
    written(manager, ORDERS, b"b")
    with (
        FaultyDisk(fail_at=1, error=errno.EIO, counting={"pread"}),
        pytest.raises(LogDirectoryOffline),
        manager.find(EVENTS) as log,
    ):
        log.read(0, max_bytes=100, up_to=1)
    for _ in range(2):
        with pytest.raises(LogDirectoryOffline) as refusal:
            written(manager, EVENTS, b"c")
        assert code_of(refusal.value) == ErrorCode.KAFKA_STORAGE_ERROR.code
    assert values_in(manager.find(ORDERS)) == [b"b"]
    assert observer.failed == [(tmp_path / "a", False)]


def test_s10_an_offline_directory_comes_back_with_the_next_start_and_not_before(tmp_path):
    manager = started(tmp_path)
    written(manager, EVENTS, b"a")
    with FaultyDisk(fail_at=1, counting={"pwritev"}), pytest.raises(LogDirectoryOffline):
        written(manager, EVENTS, b"b")
    with pytest.raises(LogDirectoryOffline):
        written(manager, EVENTS, b"c")
    manager.close(now_ms=NOW_MS)
    again = managing(tmp_path / "a", tmp_path / "b", **SETTINGS)
    assert values_in(written(again, EVENTS, b"d")) == [b"a", b"d"]


def test_s10_a_log_made_elsewhere_because_a_disk_was_full_is_found_when_it_is_not(tmp_path):
    for n in range(1, 20):
        root = tmp_path / str(n)
        manager = managing(root / "a", root / "b", **SETTINGS)
        with FaultyDisk(fail_at=n, error=errno.ENOSPC) as disk:
            hosted = written(manager, EVENTS)
        if not disk.failed_calls:
            break
        assert hosted.directory.path == root / "b"
        written(manager, EVENTS, b"a")
        manager.abandon()
        again = managing(root / "a", root / "b", **SETTINGS)
        assert contents(again) == {EVENTS: [b"a"]}
        assert again.find(EVENTS).directory.path == root / "b"
    assert n > 3


FILE_BYTES_MAX = 20_000

PRODUCER = """
import resource, sys
from pathlib import Path
from tests.storage.manager.test_s10_disk_failures import FILE_BYTES_MAX, until_refused

resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))
print(until_refused(Path(sys.argv[1])))
"""


def until_refused(path):
    manager = managing(path, segment_index_bytes=4096)
    count = 0
    while True:
        try:
            written(manager, EVENTS, b"%d" % count + bytes(1000))
        except LogDirectoryOffline:
            return count
        count += 1


def test_s10_a_limit_of_the_system_itself_is_survived(tmp_path):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != FILE_BYTES_MAX
    command = [sys.executable, "-c", PRODUCER, str(tmp_path)]
    count = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert count > 10
    found = values_in(managing(tmp_path, segment_index_bytes=4096).find(EVENTS))
    assert [value.rstrip(b"\0") for value in found] == [b"%d" % number for number in range(count)]


def test_s10_a_second_manager_on_a_directory_in_use_does_not_start(tmp_path):
    manager = started(tmp_path)
    written(manager, EVENTS, b"a")
    with pytest.raises(DirectoryLocked, match=str(tmp_path / "b")):
        managing(tmp_path / "b")
    assert values_in(written(manager, EVENTS, b"b")) == [b"a", b"b"]
