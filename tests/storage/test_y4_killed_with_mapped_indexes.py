"""Y4: a broker is killed while its indexes are mapped and have preallocated space."""

import signal
import subprocess
import sys

import pytest

from odradek.controller.tied_process import tied_command
from odradek.storage.timestamp_lookup import offset_for_timestamp
from tests.support.log_managers import EVENTS, Notebook, managing
from tests.support.logs import NOW_MS, append, records_from

INDEX_BYTES = 1024 * 1024
SETTINGS = {"index_interval_bytes": 500, "segment_index_bytes": INDEX_BYTES}

WRITER = """
import sys
from pathlib import Path
from tests.storage.test_y4_killed_with_mapped_indexes import write_until_killed

write_until_killed(Path(sys.argv[1]))
"""


def write_until_killed(path):
    manager = managing(path, **SETTINGS)
    number = 0
    with manager.get_or_create_log(EVENTS, now_ms=NOW_MS) as log:
        while True:
            append_info = append(log, b"%d" % number, bytes(150), timestamp=NOW_MS + number)
            sys.stdout.write(f"{append_info.first_offset}\n")
            sys.stdout.flush()
            number += 1


def killed_after(count, path):
    """The number of batches that the writer acknowledged before it died."""
    command = tied_command([sys.executable, "-c", WRITER, str(path)])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        acknowledged = [int(writer.stdout.readline()) for _ in range(count)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
    assert acknowledged == list(range(0, 2 * len(acknowledged), 2))
    return len(acknowledged)


@pytest.mark.parametrize("count", [10, 100, 700])
def test_y4_preallocated_indexes_are_rebuilt_and_complete_after_a_kill(tmp_path, count):
    acknowledged = killed_after(count, tmp_path)
    (index,) = (tmp_path / "events-0").glob("*.index")
    assert index.stat().st_size == INDEX_BYTES
    observer = Notebook()
    manager = managing(tmp_path, observer=observer, **SETTINGS)
    assert observer.notes == []
    log = manager.find(EVENTS).log
    assert log.log_end_offset >= 2 * acknowledged
    assert 0 < index.stat().st_size < INDEX_BYTES
    numbers = range(log.log_end_offset // 2)
    assert [record.value for record in records_from(log)][::2] == [
        b"%d" % value_number for value_number in numbers
    ]
    for number in numbers[:: max(1, len(numbers) // 50)]:
        assert records_from(log, 2 * number)[0].value == b"%d" % number
        assert offset_for_timestamp(log, NOW_MS + number).offset == 2 * number
    manager.close_handlers()
