"""The test's side of a writer that is killed: orders go in, what it told comes out.

Owner: the test's thread.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odradek.controller.tied_process import tied_command
from tests.support.crash_ledger import Ledger
from tests.support.crash_steps import tell
from tests.support.fault_points import Fault

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a writer is to do: see crash_writer.py."""

    root: Path
    seed: str = "after"
    leader_epoch: int = 100
    scenario: str | None = None
    steps: int = 0
    fault: Fault | None = None

    def line(self) -> bytes:
        return json.dumps({**vars(self), "root": str(self.root)}).encode() + b"\n"


@dataclass
class Ending:
    """How a writer came to its end, and what it had counted if it came to that."""

    was_killed: bool = False
    points: list[str] = field(default_factory=list)


class KilledWriter:
    """One process, which forks for every order."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            tied_command([sys.executable, "-m", "tests.support.crash_writer"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )

    def run(self, order: Order, ledger: Ledger, *, kill_after: int | None = None) -> Ending:
        """What it tells goes to the ledger; it is killed after that many steps are done."""
        assert self._process.stdin is not None
        self._process.stdin.write(order.line())
        self._process.stdin.flush()
        ending, pid, count = Ending(), 0, 0
        for line in self._lines():
            told: Any = json.loads(line)
            if isinstance(told, list):
                tell(line, ledger)
                count += told[1] is not None
                if count == kill_after:
                    # It may have come to its end by itself.
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            elif "ended" in told:
                assert told["ended"] in (0, signal.SIGKILL), f"the writer failed: {told}"
                ending.was_killed = told["ended"] == signal.SIGKILL
                break
            else:
                pid = told.get("pid", pid)
                ending.points = told.get("points", ending.points)
        return ending

    def _lines(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            yield line
        raise AssertionError("the writer ended before it was told to")

    def stop(self) -> None:
        """It ends with its input."""
        self._process.communicate(timeout=30)


@contextmanager
def killed_writer() -> Iterator[KilledWriter]:
    writer = KilledWriter()
    try:
        yield writer
    finally:
        writer.stop()
