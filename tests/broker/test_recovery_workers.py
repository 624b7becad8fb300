"""Workers that recover logs, that give up when they are told to, and end with the broker."""

import os
import signal
import subprocess
import sys
from functools import partial
from operator import mul
from pathlib import Path

import pytest

from odradek.broker.recovery_workers import GivenUp, RecoveryWorkers
from odradek.controller.tied_process import tied
from tests.support.group_members import wait_until
from tests.support.worker_processes import of_linux

TASKS = [partial(mul, number, 2) for number in range(10)]


@pytest.mark.parametrize("count", [1, 2])
def test_every_task_is_answered(count):
    assert sorted(RecoveryWorkers(count)(TASKS)) == list(range(0, 20, 2))


@pytest.mark.parametrize("count", [1, 2])
def test_the_rest_is_left_when_it_gives_up(count):
    workers = RecoveryWorkers(count)
    answers = workers(TASKS * 10)
    next(answers)
    workers.give_up()
    with pytest.raises(GivenUp):
        list(answers)


def test_nothing_is_begun_after_it_gave_up():
    workers = RecoveryWorkers(1)
    workers.give_up()
    with pytest.raises(GivenUp):
        next(workers(TASKS))


def test_a_terminals_interrupt_is_left_to_the_broker():
    asked = partial(signal.getsignal, signal.SIGINT)
    assert set(RecoveryWorkers(2)([asked] * 4)) == {signal.SIG_IGN}


def recover_for_long(directory):
    """What a broker does that has much to recover."""
    list(RecoveryWorkers(2)([partial(begin_and_stay, directory)] * 4))


def begin_and_stay(directory):
    (directory / str(os.getpid())).touch()
    signal.pause()


@of_linux
def test_they_end_with_a_broker_that_is_killed(tmp_path):
    here = "from pathlib import Path; from tests.broker import test_recovery_workers as here; "
    program = f"{here} here.recover_for_long(Path({str(tmp_path)!r}))"
    broker = subprocess.Popen(tied([sys.executable, "-c", program]))
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
    return [int(each.name) for each in directory.iterdir()]


def is_running(process):
    """One that has ended, and that nobody has asked about yet, has no command any more."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False
