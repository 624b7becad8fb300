"""The process in which a broker computes, as the system shows it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess

TIMEOUT_S = 30

of_linux = pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")


def worker_of(broker: BrokerProcess) -> int:
    """The id of the one that it has started, or is about to start."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children")
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for child in children.read_text().split():
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        time.sleep(0.01)
    raise AssertionError("there is none")
