"""A program in another language that speaks for a client library, one line of JSON each way.

    with ForeignProgram([binary, "franz-go"]) as program:
        handle = program.ask("open_consumer", address=broker.address)

What it writes to standard error is kept and quoted when it fails.

Owner: the thread that started it (see tied_process).
"""

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Self

from odradek.controller.tied_process import tied_command
from tests.support.client_driver import TIMEOUT_S, Refused

#: The program gives up by itself before.
ANSWER_TIMEOUT_S = 2 * TIMEOUT_S
END_TIMEOUT_S = 10
QUOTED_CHARACTERS = 4000


class ProgramFailed(Exception):
    """It ended, or did not answer in time; quotes what it wrote."""


class ForeignProgram:
    """One that runs until it is closed."""

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str] = {}) -> None:
        self._command = command
        # The file lives until the process and this object are gone: no pipe can fill up unread.
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            tied_command(list(command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env=os.environ | environment,
        )

    def ask(self, command: str, **fields: Any) -> Any:
        """Its answer; raises Refused where that is one."""
        told = self._answer(json.dumps({"command": command, **fields}))
        if "refused" in told:
            raise Refused(told["refused"] or told["text"])
        return told["answer"]

    def _answer(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            told = self._process.stdout.readline()
        except BrokenPipeError:
            told = ""
        finally:
            watchdog.cancel()
        if not told:
            raise self._failed(f"did not answer {line[:200]} (status {self._process.wait()})")
        answer: dict[str, Any] = json.loads(told)
        return answer

    def close(self) -> None:
        """The end of its input is the end of the program."""
        try:
            self._process.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired as late:
            self._process.kill()
            self._process.communicate()
            raise self._failed("did not end") from late
        finally:
            self._complaints.close()

    def _failed(self, what: str) -> ProgramFailed:
        self._complaints.seek(0)
        written = self._complaints.read()[-QUOTED_CHARACTERS:]
        return ProgramFailed(f"{' '.join(self._command)} {what}; it wrote\n{written}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
