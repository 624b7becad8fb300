"""How asynchronous tests run: each on a loop of its own, in debug mode, to its very end.

A conftest.py that imports ``pytest_pyfunc_call`` from here makes every ``async def test_...`` below
it such a test; ``finish`` is for other places.  A test fails when it leaves a task behind, when
anything on its loop failed unseen, and when it takes too long.  What ``at_end`` was told is awaited
after the test, on its loop, the last first.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import Any, TypeVar

import pytest

from tests.support.virtual_loop import VirtualLoop

TIMEOUT_S = 60

Returned = TypeVar("Returned")
_ENDINGS: ContextVar[AsyncExitStack] = ContextVar("what is to be awaited after the test")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the test, if it is a coroutine function."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    finish(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def finish(test: Coroutine[Any, Any, Returned]) -> Returned:
    return asyncio.run(_watched(test), debug=True)


def finish_in_virtual_time(test: Coroutine[Any, Any, Returned]) -> Returned:
    """Where it matters how long something waits: on a loop whose clock passes waits over."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_watched(test))
    finally:
        loop.close()


def at_end(close: Callable[[], Awaitable[object]]) -> None:
    """Await ``close()`` when the test that is running has ended."""
    _ENDINGS.get().push_async_callback(close)


def on_a_thread(fn: Callable[..., Returned], *args: object) -> asyncio.Future[Returned]:
    """The ``run`` that parts of the broker are handed for what sleeps in the kernel."""
    return asyncio.get_running_loop().run_in_executor(None, fn, *args)


async def _watched(test: Coroutine[Any, Any, Returned]) -> Returned:
    unseen: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unseen.append(context))
    # A busy machine makes any step slow; what the loop says of it would be among a test's lines.
    loop.slow_callback_duration = TIMEOUT_S
    async with asyncio.timeout(TIMEOUT_S), AsyncExitStack() as endings:
        _ENDINGS.set(endings)
        returned = await test
    left_behind = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left_behind, left_behind
    if unseen:
        raise AssertionError(unseen) from unseen[0].get("exception")
    return returned
