"""Worker processes that recover logs, can be aborted, and end with the broker."""

import os
import signal
import subprocess
import sys
from functools import partial
from operator import mul
from pathlib import Path

import pytest

from odradek.broker.recovery_workers import RecoveryAborted, RecoveryWorkers
from odradek.controller.tied_process import tied_command
from tests.support.group_members import wait_until
from tests.support.worker_processes import of_linux

TASKS = [partial(mul, number, 2) for number in range(10)]


@pytest.mark.parametrize("count", [1, 2])
def test_every_task_has_a_result(count):
    assert sorted(RecoveryWorkers(count)(TASKS)) == list(range(0, 20, 2))


@pytest.mark.parametrize("count", [1, 2])
def test_abort_skips_the_remaining_tasks(count):
    workers = RecoveryWorkers(count)
    results = workers(TASKS * 10)
    next(results)
    workers.abort()
    with pytest.raises(RecoveryAborted):
        list(results)


def test_nothing_starts_after_an_abort():
    workers = RecoveryWorkers(1)
    workers.abort()
    with pytest.raises(RecoveryAborted):
        next(workers(TASKS))


def test_workers_ignore_the_interrupt_of_a_terminal():
    get_handler = partial(signal.getsignal, signal.SIGINT)
    assert set(RecoveryWorkers(2)([get_handler] * 4)) == {signal.SIG_IGN}


def recover_for_long(directory):
    """Recovers like a broker that has much to recover."""
    list(RecoveryWorkers(2)([partial(run_until_killed, directory)] * 4))


def run_until_killed(directory):
    (directory / str(os.getpid())).touch()
    signal.pause()


@of_linux
def test_workers_end_with_a_killed_broker(tmp_path):
    module = "from pathlib import Path; from tests.broker import test_recovery_workers as here; "
    program = f"{module} here.recover_for_long(Path({str(tmp_path)!r}))"
    broker = subprocess.Popen(tied_command([sys.executable, "-c", program]))
    try:
        wait_until(lambda: len(processes_in(tmp_path)) == 2)
        broker.kill()
        wait_until(lambda: not any(map(is_running, processes_in(tmp_path))))
    finally:
        broker.kill()
        broker.wait()
        for process in filter(is_running, processes_in(tmp_path)):
            os.kill(process, signal.SIGKILL)


def processes_in(directory):
    return [int(path.name) for path in directory.iterdir()]


def is_running(process):
    """A process that ended and was not waited for has no command line."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False
