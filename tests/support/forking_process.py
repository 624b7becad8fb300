"""A process that takes orders, one line of JSON each, and forks for every one: both its sides.

So a child that is killed costs a fork and not a start of Python.  What is told is a line of JSON,
too; the last of an order is the process's own:

    {"ended": 9}   the signal that ended the child, or 0

Owner: the test's thread; in the process, whoever is told.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from odradek.controller.tied_process import tied_command

ROOT = Path(__file__).parents[2]


class ForkingProcess:
    """The test's side: of a module whose main is ``serve``."""

    def __init__(self, module: str) -> None:
        self.was_killed = False
        self._process = subprocess.Popen(
            tied_command([sys.executable, "-m", module]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )

    def told(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """By the child; ``was_killed`` says how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            told = json.loads(line)
            if "ended" in told:
                assert told["ended"] in (0, signal.SIGKILL), told
                self.was_killed = told["ended"] == signal.SIGKILL
                return
            yield told
        raise AssertionError("the process ended before it was told to")

    def stop(self) -> None:
        self._process.communicate(timeout=30)


# The process's side


def tell(told: dict[str, object]) -> None:
    """In one system call, with nothing held back: a fork would repeat what was."""
    os.write(sys.stdout.fileno(), json.dumps(told).encode() + b"\n")


def serve(work: Callable[[dict[str, Any]], None]) -> None:
    """``work`` is called in a child, with its order."""
    for line in iter(sys.stdin.buffer.raw.readline, b""):
        child = os.fork()
        if child == 0:
            work(json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        tell({"ended": os.waitstatus_to_exitcode(status) * -1})
