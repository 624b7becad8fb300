"""Sends a request to several brokers, one after another, and returns the first response.

If a broker does not respond soon, the request also goes to the next broker, while the first one
may still respond.  If a broker fails, the request goes to the next one immediately.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from odradek.broker.cli.broker_connections import Address, RetriableError
from odradek.broker.cli.errors import CommandFailed

#: The delay is shorter if the timeout is too short to try every broker with this delay.
NEXT_BROKER_DELAY_S = 1.0

Response = TypeVar("Response")
SendRequest = Callable[[Address], Coroutine[Any, Any, Response]]


async def first_response(
    send: SendRequest[Response], brokers: Iterable[Address], *, timeout_s: float
) -> Response:
    """Raise RetriableError if no broker responds, and any other CommandFailed immediately."""
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
    """Return a response if there is one, or else raise the most specific error."""
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
