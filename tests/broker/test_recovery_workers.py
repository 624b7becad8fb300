"""Workers that recover logs, and that give up when they are told to."""

from functools import partial
from operator import mul

import pytest

from odradek.broker.recovery_workers import GivenUp, RecoveryWorkers

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
