"""Y5: another process cuts an index short while a broker has it mapped.

A page of a map that lies behind the end of its file cannot be read: the kernel ends the process
with SIGBUS.  So a broker goes on, says that the disk has failed, or dies at once, but never answers
wrongly; and when it starts again everything is there.
"""

import os
import signal
import subprocess
import sys

import pytest

from odradek.controller.tied_process import tied_command
from odradek.protocol.errors import KafkaStorageError
from odradek.storage.timestamp_lookup import offset_for_timestamp
from tests.support.log_managers import EVENTS, managing
from tests.support.logs import NOW_MS, append, bytes_of, records_from

#: An index of two pages: what is cut off is not in the one that stays.
COUNT = 1100
SETTINGS = {"index_interval_bytes": 0, "segment_index_bytes": 64 * 1024}

READER = """
import sys
from pathlib import Path
from tests.crash.test_truncated_index import read_everything

read_everything(Path(sys.argv[1]))
"""


def read_everything(path):
    """Twice, the second time when told to: whoever survives that has seen nothing wrong."""
    manager = managing(path, **SETTINGS)
    check_reads(manager)
    sys.stdout.write("mapped\n")
    sys.stdout.flush()
    sys.stdin.readline()
    try:
        check_reads(manager)
    except KafkaStorageError:
        sys.exit(3)


def check_reads(manager):
    with manager.find(EVENTS) as log:
        for offset in range(0, COUNT, 7):
            content = bytes_of(log.read(offset, max_bytes=1, max_offset=COUNT))
            assert int.from_bytes(content[:8]) == offset
            assert offset_for_timestamp(log, NOW_MS + offset).offset == offset


@pytest.fixture
def path(tmp_path):
    manager = managing(tmp_path, **SETTINGS)
    with manager.get_or_create_log(EVENTS, now_ms=NOW_MS) as log:
        for number in range(COUNT):
            append(log, b"%d" % number, timestamp=NOW_MS + number)
    manager.close(now_ms=NOW_MS)
    return tmp_path


@pytest.mark.parametrize("ending", ["index", "timeindex"])
@pytest.mark.parametrize("length", [0, 100, 4096])
def test_y5_a_broker_whose_index_is_cut_short_goes_on_or_dies_and_nothing_is_lost(
    path, ending, length
):
    command = tied_command([sys.executable, "-c", READER, str(path)])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout.readline() == b"mapped\n"
        (index,) = (path / "events-0").glob(f"*.{ending}")
        os.truncate(index, length)
        reader.stdin.write(b"go on\n")
        reader.stdin.close()
    assert reader.returncode in (0, 3, -signal.SIGBUS)
    manager = managing(path, **SETTINGS)
    check_reads(manager)
    with manager.find(EVENTS) as log:
        assert [int(record.value) for record in records_from(log)] == list(range(COUNT))
        assert append(log, b"next").first_offset == COUNT
    manager.close(now_ms=NOW_MS)
