"""The first answer of several brokers that could all give it.

They are asked one after the other.  One that does not answer soon is waited for still, but so is
the next one; one that fails is followed by the next at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from odradek.broker.cli.direct import Address, NoAnswer

#: Less if there is little time: all are to be asked.
SOON_S = 1.0

Answer = TypeVar("Answer")
Ask = Callable[[Address], Coroutine[Any, Any, Answer]]


async def first_answer(ask: Ask[Answer], brokers: Iterable[Address], *, timeout_s: float) -> Answer:
    """Raises NoAnswer, and at once whatever else an ask raises."""
    import asyncio

    addresses = [*brokers]
    to_ask = [*addresses]
    failures: list[NoAnswer] = []
    asked: set[asyncio.Task[Answer]] = set()
    deadline = time.monotonic() + timeout_s
    soon_s = min(SOON_S, timeout_s / (len(addresses) + 1))
    try:
        while (to_ask or asked) and (left_s := deadline - time.monotonic()) > 0:
            if to_ask:
                asked.add(asyncio.create_task(ask(to_ask.pop(0))))
            patience_s = min(soon_s, left_s) if to_ask else left_s
            done, asked = await asyncio.wait(
                asked, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
            )
            told = {each: each.exception() for each in done}
            failures += [why for why in told.values() if isinstance(why, NoAnswer)]
            for each, why in told.items():
                if not isinstance(why, NoAnswer):
                    return each.result()
    finally:
        for each in asked:
            each.cancel()
        if asked:
            await asyncio.wait(asked)
    if failures and not asked:
        raise failures[0]
    raise NoAnswer(f"no broker answers in {timeout_s:.3g} s: {', '.join(map(str, addresses))}")
