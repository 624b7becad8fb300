"""The first answer of several brokers that could all give it.

They are asked one after the other.  One that does not answer soon is waited for still, but so is
the next one; one that fails is followed by the next at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from odradek.broker.cli.broker_connections import Address, RetriableError
from odradek.broker.cli.errors import CommandFailed

#: Less if there is little time: all are to be asked.
NEXT_BROKER_DELAY_S = 1.0

Response = TypeVar("Response")
SendRequest = Callable[[Address], Coroutine[Any, Any, Response]]


async def first_response(
    send: SendRequest[Response], brokers: Iterable[Address], *, timeout_s: float
) -> Response:
    """Raises NoAnswer, and at once any other CommandFailed."""
    import asyncio

    addresses = [*brokers]
    untried = [*addresses]
    results: list[Response | CommandFailed] = []
    delay_s = min(NEXT_BROKER_DELAY_S, timeout_s / (len(addresses) + 1))
    deadline = time.monotonic() + timeout_s
    async with asyncio.TaskGroup() as group:
        pending: set[asyncio.Task[Response | CommandFailed]] = set()
        while (untried or pending) and (remaining_s := deadline - time.monotonic()) > 0:
            if untried:
                pending.add(group.create_task(_try_send(send, untried.pop(0))))
            wait_s = min(delay_s, remaining_s) if untried else remaining_s
            done, pending = await asyncio.wait(
                pending, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
            )
            results += [task.result() for task in done]
            if not all(isinstance(result, RetriableError) for result in results):
                break
        for task in pending:
            task.cancel()
    return _select_result(results, addresses, timeout_s)


async def _try_send(send: SendRequest[Response], address: Address) -> Response | CommandFailed:
    try:
        return await send(address)
    except CommandFailed as error:
        return error


def _select_result(
    results: list[Response | CommandFailed], addresses: list[Address], timeout_s: float
) -> Response:
    """That which is not only the lack of an answer."""
    for result in results:
        if not isinstance(result, CommandFailed):
            return result
    errors = [result for result in results if isinstance(result, CommandFailed)]
    final = [error for error in errors if not isinstance(error, RetriableError)]
    if final or len(errors) == len(addresses):
        raise (final or errors)[0]
    raise RetriableError(
        f"no broker responded within {round(timeout_s, 1):g} s: {', '.join(map(str, addresses))}"
    )
