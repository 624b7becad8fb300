"""Requests that confluent-kafka has no function for, over connections of our own.

They speak neither TLS nor SASL.  Whom to ask is what that library knows: its metadata has the
addresses of the brokers.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from odradek.broker.cli import client
from odradek.broker.cli.assignments import by_name
from odradek.broker.cli.failed import CommandFailed

if TYPE_CHECKING:
    import argparse

    from odradek.broker.network.client import BrokerClient
    from odradek.protocol.schema import Message

PLAIN = "plaintext"

Answer = TypeVar("Answer")


class Address(NamedTuple):
    """Of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def run(
    arguments: argparse.Namespace, ask: Callable[[Connections], Awaitable[Answer]], *, tool: str
) -> Answer:
    """What ``ask`` makes of the answers; ``tool`` is Kafka's own, which can do it otherwise."""
    import asyncio

    protocol = by_name(arguments.property).get("security.protocol", PLAIN)
    if protocol.lower() != PLAIN:
        raise CommandFailed(
            f"confluent-kafka has no function for this, and this command cannot speak {protocol}: "
            f"use Kafka's {tool}"
        )

    async def answer() -> Answer:
        connections = Connections(arguments.timeout)
        try:
            return await ask(connections)
        finally:
            connections.close()

    return asyncio.run(answer())


class NoAnswer(CommandFailed):
    """By a broker; another one, or the same a little later, may give one."""


class Connections:
    """One to each broker that was asked something."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._clients: dict[Address, BrokerClient] = {}

    async def ask(self, address: Address, request: Message, *, version: int) -> Any:
        """The answer, of the class that belongs to the request.  Raises NoAnswer.

        CommandFailed: this cannot even be asked, as a number or a name is too large.
        """
        from odradek.broker.network.client import BrokerClient
        from odradek.protocol.errors import DecodeError, EncodeError

        if address not in self._clients:
            self._clients[address] = BrokerClient(
                address.host, address.port, client_id=client.CLIENT_ID, timeout_s=self._timeout_s
            )
        try:
            return await self._clients[address].send(request, version=version)
        except EncodeError as failure:
            raise CommandFailed(f"this cannot be asked: {failure}") from failure
        except (OSError, DecodeError) as failure:
            raise NoAnswer(f"the broker at {_why(address, failure)}") from failure

    def close(self) -> None:
        for each in self._clients.values():
            each.close()


def _why(address: Address, failure: Exception) -> str:
    """What the client says begins with the address; what the system says does not."""
    told = str(failure)
    if told.startswith(f"{address} "):
        return told
    number = getattr(failure, "errno", None)
    return f"{address} does not answer: {os.strerror(number) if number else told}"


def reason(code: int) -> str:
    """What an error code of the protocol says."""
    from odradek.protocol.error_codes import ErrorCode

    error = ErrorCode.of(code)
    return f"{error.name}: {error.message}"
