"""The runner of asynchronous tests sees what asyncio would let pass."""

import asyncio
import time

import pytest

from tests.support.loops import at_end, finish


async def test_an_asynchronous_test_runs_in_debug_mode(tmp_path):
    assert asyncio.get_running_loop().get_debug()
    assert tmp_path.is_dir()


async def test_a_busy_machine_adds_nothing_to_what_a_test_logs(caplog):
    # Longer than the loop would let pass.
    asyncio.get_running_loop().call_soon(time.sleep, 0.15)
    await asyncio.sleep(0)
    assert not caplog.records


def test_what_a_coroutine_returns_is_returned():
    assert finish(asyncio.sleep(0, "slept")) == "slept"


def test_a_task_left_behind_fails_the_test():
    async def careless():
        asyncio.get_running_loop().create_task(asyncio.Event().wait())

    with pytest.raises(AssertionError, match=r"Event\.wait"):
        finish(careless())


def test_a_failure_that_nobody_sees_fails_the_test():
    async def careless():
        asyncio.get_running_loop().call_soon(int, "not a number")
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="not a number"):
        finish(careless())


def test_endings_are_awaited_the_last_first_even_after_a_failure():
    order = []

    async def failing():
        at_end(lambda: asyncio.sleep(0, order.append("first")))
        at_end(lambda: asyncio.sleep(0, order.append("last")))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        finish(failing())
    assert order == ["last", "first"]
