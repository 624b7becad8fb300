"""A broker process whose clock a test can set, forward and back.

    broker = BrokerWithClock(tmp_path / "logs").start()
    broker.jump(hours=3)

It is the clock that tells the time of day; the one by which durations are measured cannot be set.

Owner: the test's thread; run as a program, the broker's threads.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.broker_process import BrokerProcess

MODULE = "odradek.broker.cli.main"
OFFSET_NS = struct.Struct("<q")
NS_PER_HOUR = 3_600 * 10**9


class BrokerWithClock(BrokerProcess):
    """On time until told otherwise."""

    def __init__(self, data_dir: Path, *overrides: str, **more: Any) -> None:
        super().__init__(data_dir, *overrides, **more)
        self._offset = data_dir.with_name(data_dir.name + ".clock")
        self._offset.parent.mkdir(parents=True, exist_ok=True)
        self._offset.write_bytes(OFFSET_NS.pack(0))

    def command(self) -> list[str]:
        python, _, module, *arguments = super().command()
        assert module == MODULE
        return [python, "-m", "tests.support.jumping_clock", str(self._offset), *arguments]

    def jump(self, *, hours: float) -> None:
        """From the right time, wherever it is by now; 0 puts it right."""
        with self._offset.open("r+b") as file:
            file.write(OFFSET_NS.pack(int(hours * NS_PER_HOUR)))


def main() -> None:
    with Path(sys.argv.pop(1)).open("rb") as file:
        shared = mmap.mmap(file.fileno(), OFFSET_NS.size, access=mmap.ACCESS_READ)
    right_ns = time.time_ns

    def time_ns() -> int:
        return int(right_ns() + OFFSET_NS.unpack_from(shared)[0])

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 10**9
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
