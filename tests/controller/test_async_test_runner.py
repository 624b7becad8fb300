"""The runner of coroutine tests reports leaked tasks and unhandled errors."""

import asyncio
import time

import pytest

from tests.support.loops import at_end, finish


async def test_coroutine_test_runs_in_debug_mode(tmp_path):
    assert asyncio.get_running_loop().get_debug()
    assert tmp_path.is_dir()


async def test_slow_callback_is_not_logged(caplog):
    # Longer than asyncio's slow_callback_duration.
    asyncio.get_running_loop().call_soon(time.sleep, 0.15)
    await asyncio.sleep(0)
    assert not caplog.records


def test_finish_returns_the_result_of_the_coroutine():
    assert finish(asyncio.sleep(0, "slept")) == "slept"


def test_leaked_task_fails_the_test():
    async def leak_task():
        asyncio.get_running_loop().create_task(asyncio.Event().wait())

    with pytest.raises(AssertionError, match=r"Event\.wait"):
        finish(leak_task())


def test_unhandled_callback_error_fails_the_test():
    async def fail_in_callback():
        asyncio.get_running_loop().call_soon(int, "not a number")
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="not a number"):
        finish(fail_in_callback())


def test_at_end_callbacks_run_in_reverse_order_even_after_an_error():
    order = []

    async def fail():
        at_end(lambda: asyncio.sleep(0, order.append("first")))
        at_end(lambda: asyncio.sleep(0, order.append("last")))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        finish(fail())
    assert order == ["last", "first"]
