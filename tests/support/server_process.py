"""A server in the background: started, waited for, stopped or killed.

What it prints goes to one file, which outlives it; a failure to start quotes the end of that file.

Owner: the thread that started it.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from odradek.controller.tied_process import tied_command

POLL_INTERVAL_S = 0.05
QUOTED_LINES = 30

#: Servers alive now, for reports of failed tests.
running: list["ServerProcess"] = []


class ServerFailed(Exception):
    """A server ended, or did not do in time what it was expected to do."""


class ServerProcess:
    def __init__(self, name: str, *, command: list[str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                tied_command(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        running.append(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, is_ready: Callable[[], bool], *, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if not self.is_alive():
                self._forget()
                raise ServerFailed(f"{self.name} ended; its log ends with\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(
                    f"{self.name} was not ready after {timeout_s} s; its log ends with\n"
                    f"{self.log_tail()}"
                )
            time.sleep(POLL_INTERVAL_S)

    def stop(self, *, timeout_s: float = 30) -> None:
        """Ask it to end (SIGTERM); raises if it had to be killed."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ServerFailed(f"{self.name} had to be killed:\n{self.log_tail()}") from error
        self._forget()

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL)."""
        self._process.kill()
        self._process.wait()
        self._forget()

    def log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([str(self.log), *lines[-QUOTED_LINES:]])

    def _forget(self) -> None:
        with contextlib.suppress(ValueError):
            running.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self.is_alive():
            self.stop()
        self._forget()
