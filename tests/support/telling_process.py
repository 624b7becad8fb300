"""A program of the tests' own in a process of its own, which tells what happens to it.

Each line that it prints is an event in JSON; it is told what to do by lines on its standard input.

Owner: the thread of the test; a thread reads the events.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from odradek.controller.tied_process import tied_command

WAIT_S = 60.0


class TellingProcess:
    """``module`` is run with these arguments, from ``start`` on."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._changed = threading.Condition()
        self.events: list[dict[str, Any]] = []
        self._process: subprocess.Popen[str] | None = None
        self._reading = threading.Thread(target=self._read, daemon=True)

    def start(self) -> Self:
        self._process = subprocess.Popen(
            tied_command(self._command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reading.start()
        return self

    def _read(self) -> None:
        output = self._running.stdout
        assert output is not None
        for line in output:
            if not line.endswith("\n"):
                return  # it was killed in the middle of a word
            with self._changed:
                self.events.append(json.loads(line))
                self._changed.notify_all()

    @property
    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *failure: object) -> None:
        if self._process is not None:
            self.kill()
            self._reading.join(WAIT_S)
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                # An order that nobody has read any more.
                with suppress(BrokenPipeError):
                    pipe.close()

    # What it is told

    def order(self, *words: object) -> None:
        """One that is paused does it when it goes on."""
        pipe = self._running.stdin
        assert pipe is not None
        pipe.write(" ".join(map(str, words)) + "\n")
        pipe.flush()

    def close(self) -> None:
        """Let it come to its end, and wait until it has."""
        self.order("close")
        self.wait_until(lambda: self.happened("closed"))
        self._running.wait(WAIT_S)

    def kill(self) -> None:
        self._running.kill()
        self._running.wait()

    def pause(self) -> None:
        self._running.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running.send_signal(signal.SIGCONT)

    # What it has told

    def is_alive(self) -> bool:
        return self._running.poll() is None

    def happened(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]

    def wait_until(self, condition: Callable[[], Any], *, timeout_s: float = WAIT_S) -> None:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not condition():
                left_s = deadline - time.monotonic()
                assert left_s > 0, f"{self._command[2:4]}: {self.events[-20:]}"
                self._changed.wait(min(left_s, 0.5))
