"""A ``run`` that calls nothing until the test lets it."""

import asyncio
from collections.abc import Callable
from typing import Any


class HeldRuns:
    """Calls are done at once, and answered too, unless ``holds``; then when released, in order."""

    def __init__(self) -> None:
        self.holds = False
        self.held: list[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]] = []
        self.done: list[str] = []

    def __call__(self, fn: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.held.append((answer, fn, args))
        if not self.holds:
            self.release()
        return answer

    def release(self, failure: Exception | None = None) -> None:
        """Do what is held, or let the first of it fail."""
        while self.held:
            answer, fn, args = self.held.pop(0)
            self.done.append(fn.__name__)
            if failure is not None:
                answer.set_exception(failure)
                failure = None
                continue
            answer.set_result(fn(*args))
