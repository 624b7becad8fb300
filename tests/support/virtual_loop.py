"""An event loop without a clock, sockets or threads: time passes only when nothing else is left.

    loop = VirtualLoop()
    loop.pass_time(3600)            an hour, in no time

Whoever sleeps is woken in the order of the times until which they sleep; whatever is ready goes
first come, first served, as asyncio promises it to everyone.  So what happens depends on nothing
but the program: chance comes in by the delays that a test draws, each from a seed of its own.

A loop that has nothing to wait for any more would wait for ever: that is Stuck.

Owner: the thread that runs it.
"""

import asyncio
from typing import Any


class Stuck(Exception):
    """Nothing is left that could ever happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """``unseen`` is what failed without anyone who waited for it; ``rounds`` how often it went."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._selector = self
        self.rounds = 0
        self.unseen: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.unseen.append(context))

    def time(self) -> float:
        return self._now_s

    def now_ms(self) -> int:
        return round(self._now_s * 1000)

    def pass_time(self, seconds: float) -> None:
        self.run_until_complete(asyncio.sleep(seconds))

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        raise RuntimeError("no threads here")

    # What the base class asks of a selector and of whoever has one.

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck
        self.rounds += 1
        self._now_s += timeout
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        raise RuntimeError("no threads here")
