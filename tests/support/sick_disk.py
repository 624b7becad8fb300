"""A broker process whose syncs hang, or fail, for as long as it is told so.

    with SickDiskBroker(tmp_path / "logs").start() as broker:
        broker.hang_syncs(broker.data_dir)       of files and folders below it
        broker.wait_until_hanging(...)
        broker.heal()

Its ``os.fsync`` is replaced before anything of the broker is imported.  What it should do stands in
a file beside the data, ``hang <path>`` or ``fail <path>``; what it did is written to another.

Owner: the test's thread; run as a program, the broker's threads.
"""

from __future__ import annotations

import errno
import os
import runpy
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.broker_process import BrokerProcess

WAIT_S = 20.0
POLL_INTERVAL_S = 0.005
HANG, FAIL = "hang", "fail"
MODULE = "odradek.broker.cli.main"


class SickDiskBroker(BrokerProcess):
    """Healthy until told otherwise; it keeps its illness when it is started again."""

    def __init__(self, data_dir: Path, *overrides: str) -> None:
        super().__init__(data_dir, *overrides)
        self._told = data_dir.with_name(data_dir.name + ".sickness")

    def command(self) -> list[str]:
        python, _, module, *arguments = super().command()
        assert module == MODULE
        return [python, "-m", "tests.support.sick_disk", str(self._told), *arguments]

    def hang_syncs(self, below: Path) -> None:
        self._tell(f"{HANG} {below}")

    def fail_syncs(self, below: Path) -> None:
        self._tell(f"{FAIL} {below}")

    def heal(self) -> None:
        """What hangs goes on."""
        self._told.unlink(missing_ok=True)

    def wait_until_hanging(self, *below: Path) -> None:
        """Until a sync hangs in each of these folders."""
        self._wait_until(
            lambda: all(
                any(Path(path).is_relative_to(each) for path in self._hung) for each in below
            )
        )

    def wait_until_told(self, line: str) -> None:
        """Until it has written this."""
        self._wait_until(lambda: line in self.log_text)

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < deadline, (self._hung, self.log_tail())
            time.sleep(POLL_INTERVAL_S)

    @property
    def _hung(self) -> list[str]:
        noted = _noted(self._told)
        return noted.read_text().splitlines() if noted.exists() else []

    def _tell(self, sickness: str) -> None:
        _noted(self._told).unlink(missing_ok=True)
        temporary = self._told.with_suffix(".tmp")
        temporary.write_text(sickness)
        temporary.replace(self._told)

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        self.heal()
        super().__exit__(kind, failure, trace)


def _noted(told: Path) -> Path:
    return told.with_suffix(".hung")


def sick(sync: Callable[[int], None], told: Path) -> Callable[[int], None]:
    """``os.fsync`` of a disk that does as it is told."""

    def fsync(descriptor: Any) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if _sickness_of(path, told) == HANG:
            with _noted(told).open("a") as notes:
                notes.write(path + "\n")
            while _sickness_of(path, told) == HANG:
                time.sleep(POLL_INTERVAL_S)
        if _sickness_of(path, told) == FAIL:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    return fsync


def _sickness_of(path: str, told: Path) -> str | None:
    with suppress(FileNotFoundError):
        sickness, _, below = told.read_text().partition(" ")
        if Path(path).is_relative_to(below):
            return sickness
    return None


if __name__ == "__main__":
    os.fsync = sick(os.fsync, Path(sys.argv.pop(1)))
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
