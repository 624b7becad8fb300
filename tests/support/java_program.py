"""A Java program of Kafka's jars or of one source file, spoken to in lines.

    with JavaProgram(jars, source, "argument") as program:
        answer = program.ask("a line")

A program given as a source file is compiled by the JVM that runs it (Java 11 or newer), which
takes about a second, so a conversation is worth more than many short runs.  What it writes to
standard error is kept and quoted when it fails.

Owner: the thread that started it (see tied_process).
"""

import subprocess
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from odradek.controller.tied_process import tied_command

RUN_TIMEOUT_S = 120
ANSWER_TIMEOUT_S = 60
QUOTED_CHARACTERS = 4000

# A JVM of these tests lives for seconds: the quick compiler and the plain collector start soonest.
JVM_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JavaFailed(Exception):
    """A Java program ended in failure or did not answer in time; quotes what it wrote."""


def java_command(
    jars: Path, main: str | Path, *arguments: str, options: Iterable[str] = ()
) -> list[str]:
    """``main`` is the name of a class in the jars, or the path of a source file."""
    return ["java", *JVM_OPTIONS, *options, "-cp", f"{jars}/*", str(main), *arguments]


def run_java(jars: Path, main: str | Path, *arguments: str, lines: Iterable[str] = ()) -> list[str]:
    """Run to the end with these lines on standard input; the lines it printed."""
    try:
        ended = subprocess.run(
            tied_command(java_command(jars, main, *arguments)),
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise JavaFailed(f"{main} ran for more than {RUN_TIMEOUT_S} s") from error
    except subprocess.CalledProcessError as error:
        written = (error.stdout + error.stderr)[-QUOTED_CHARACTERS:]
        raise JavaFailed(f"{main} ended with {error.returncode}:\n{written}") from error
    return ended.stdout.splitlines()


class JavaProgram:
    """A running program that answers each line with one line."""

    def __init__(self, jars: Path, main: str | Path, *arguments: str) -> None:
        self._main = main
        # The file lives until the process and this object are gone: no pipe can fill up unread.
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            tied_command(java_command(jars, main, *arguments)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )

    def ask(self, line: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> str:
        assert "\n" not in line
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(timeout_s, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            watchdog.cancel()
        if not answer:
            raise JavaFailed(
                f"{self._main} did not answer {line[:200]!r} "
                f"(exit code {self._process.wait()}):\n{self._written()}"
            )
        return answer.rstrip("\n")

    def close(self) -> None:
        """The end of its input is the end of the program."""
        try:
            self._process.communicate(timeout=ANSWER_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.communicate()
            raise JavaFailed(f"{self._main} did not end:\n{self._written()}") from error
        finally:
            self._complaints.close()

    def _written(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read()[-QUOTED_CHARACTERS:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
