"""A broker process whose disk kills it, or fails it, where a test wants it.

    broker = FaultyBroker(tmp_path / "logs")
    broker.fault = Fault("fsync .log", "before")     from its next start on
    broker.fail(errno.EIO, below=directory)          at once, and until ``heal``

Below the storage layer everything is the broker's own, except that nothing is synced, and that the
worker process, which compacts, knows of no fault.

Owner: the test's thread; run as a program, the broker's threads.
"""

from __future__ import annotations

import errno
import json
import os
import runpy
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from odradek.storage import files
from tests.support.broker_process import BrokerProcess
from tests.support.fault_points import Fault, FaultPoints
from tests.support.faulty_disk import CHANGING, changes_a_file

MODULE = "odradek.broker.cli.main"
#: What a disk that is full, or may not be written, still does.
READING = frozenset({"pread", "listdir"})


class FaultyBroker(BrokerProcess):
    """Sound until told otherwise."""

    def __init__(self, data_dir: Path, *overrides: str, **more: Any) -> None:
        super().__init__(data_dir, *overrides, **more)
        self.fault: Fault | None = None
        self._told = data_dir.with_name(data_dir.name + ".failing")

    def command(self) -> list[str]:
        python, _, module, *arguments = super().command()
        assert module == MODULE
        faults = [json.dumps(self.fault), str(self._told)]
        return [python, "-m", "tests.support.faulty_broker", *faults, *arguments]

    def fail(self, error: int, *, below: Path) -> None:
        temporary = self._told.with_suffix(".tmp")
        temporary.write_text(f"{error} {below}")
        temporary.replace(self._told)

    def heal(self) -> None:
        self._told.unlink(missing_ok=True)


class FailingDisk:
    """The calls of ``files.SystemCalls``; those below a folder fail, while a file names it."""

    def __init__(self, told: Path, over: FaultPoints) -> None:
        self._told = told
        self._over = over

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._over, name)
        if name not in CHANGING | READING:
            return call

        def checked(target: Any, *arguments: Any, **named: Any) -> Any:
            path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else target
            error = self._error_below(path)
            is_harmless = name in READING or (
                name == "open" and not changes_a_file(target, *arguments)
            )
            if error and (error == errno.EIO or not is_harmless):
                raise OSError(error, os.strerror(error))
            return call(target, *arguments, **named)

        return checked

    def _error_below(self, path: files.FilePath) -> int:
        with suppress(FileNotFoundError):
            error, _, below = self._told.read_text().partition(" ")
            if Path(os.fsdecode(path)).is_relative_to(below):
                return int(error)
        return 0


def main() -> None:
    fault, told = json.loads(sys.argv.pop(1)), Path(sys.argv.pop(1))
    points = FaultPoints(Fault(*fault) if fault else None)
    system: Any = FailingDisk(told, points)
    files.system = system
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
