"""The first answer of several brokers that could all give it.

They are asked one after the other.  One that does not answer soon is waited for still, but so is
the next one; one that fails is followed by the next at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from odradek.broker.cli.direct import Address, NoAnswer
from odradek.broker.cli.failed import CommandFailed

#: Less if there is little time: all are to be asked.
SOON_S = 1.0

Answer = TypeVar("Answer")
Ask = Callable[[Address], Coroutine[Any, Any, Answer]]


async def first_answer(ask: Ask[Answer], brokers: Iterable[Address], *, timeout_s: float) -> Answer:
    """Raises NoAnswer, and at once any other CommandFailed."""
    import asyncio

    addresses = [*brokers]
    to_ask = [*addresses]
    ended: list[Answer | CommandFailed] = []
    soon_s = min(SOON_S, timeout_s / (len(addresses) + 1))
    deadline = time.monotonic() + timeout_s
    async with asyncio.TaskGroup() as group:
        asked: set[asyncio.Task[Answer | CommandFailed]] = set()
        while (to_ask or asked) and (left_s := deadline - time.monotonic()) > 0:
            if to_ask:
                asked.add(group.create_task(_outcome(ask, to_ask.pop(0))))
            patience_s = min(soon_s, left_s) if to_ask else left_s
            done, asked = await asyncio.wait(
                asked, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
            )
            ended += [each.result() for each in done]
            if not all(isinstance(each, NoAnswer) for each in ended):
                break
        for silent in asked:
            silent.cancel()
    return _best(ended, addresses, timeout_s)


async def _outcome(ask: Ask[Answer], address: Address) -> Answer | CommandFailed:
    try:
        return await ask(address)
    except CommandFailed as failure:
        return failure


def _best(
    outcomes: list[Answer | CommandFailed], addresses: list[Address], timeout_s: float
) -> Answer:
    """That which is not only the lack of an answer."""
    for each in outcomes:
        if not isinstance(each, CommandFailed):
            return each
    failures = [each for each in outcomes if isinstance(each, CommandFailed)]
    final = [each for each in failures if not isinstance(each, NoAnswer)]
    if final or len(failures) == len(addresses):
        raise (final or failures)[0]
    raise NoAnswer(
        f"no broker answers in {round(timeout_s, 1):g} s: {', '.join(map(str, addresses))}"
    )
