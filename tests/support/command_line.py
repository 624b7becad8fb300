"""``odradek`` run in this process: what it printed, what it complained of, its exit status."""

import io
import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from odradek.broker.cli.main import main


@dataclass(frozen=True, slots=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        assert (self.status, self.err) == (0, ""), self
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        """Without the names of the columns."""
        return [line.split("\t") for line in self.lines[1:]]

    @property
    def objects(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    @property
    def complaint(self) -> str:
        """The one line of a command that failed."""
        assert self.status == 1, self
        (line,) = self.err.splitlines()
        return line


class CommandLine:
    """With a broker to speak to, if one is given."""

    def __init__(
        self,
        capture: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        bootstrap: str | None = None,
    ) -> None:
        self._capture = capture
        self._monkeypatch = monkeypatch
        self.bootstrap = bootstrap

    def __call__(self, *arguments: object, stdin: bytes = b"") -> Ran:
        words = [str(argument) for argument in arguments]
        if self.bootstrap is not None:
            words += ["--bootstrap", self.bootstrap]
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            status = main(words)
        except SystemExit as exit_:
            status = int(exit_.code or 0)
        written = self._capture.readouterr()
        return Ran(status, written.out, written.err)
