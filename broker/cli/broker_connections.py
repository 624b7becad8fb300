"""Requests that confluent-kafka has no function for, over connections of our own.

They speak neither TLS nor SASL.  Whom to ask is what that library knows: its metadata has the
addresses of the brokers.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from odradek.broker.cli import client
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.name_values import to_dict

if TYPE_CHECKING:
    import argparse

    from odradek.broker.network.broker_client import BrokerClient
    from odradek.protocol.schema import Message

PLAINTEXT = "plaintext"

Result = TypeVar("Result")


class Address(NamedTuple):
    """Of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def run(
    arguments: argparse.Namespace,
    operation: Callable[[BrokerConnections], Awaitable[Result]],
    *,
    tool: str,
) -> Result:
    """What ``ask`` makes of the answers; ``tool`` is Kafka's own, which can do it otherwise."""
    import asyncio

    protocol = to_dict(arguments.property).get("security.protocol", PLAINTEXT)
    if protocol.lower() != PLAINTEXT:
        raise CommandFailed(
            f"security.protocol={protocol}: this command supports plaintext only; "
            f"use Kafka's {tool}"
        )

    async def run_operation() -> Result:
        connections = BrokerConnections(arguments.timeout)
        try:
            return await operation(connections)
        finally:
            connections.close()

    return asyncio.run(run_operation())


class RetriableError(CommandFailed):
    """By a broker; another one, or the same a little later, may give one."""


class BrokerConnections:
    """One to each broker that was asked something."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._clients: dict[Address, BrokerClient] = {}

    async def send(self, address: Address, request: Message, *, version: int) -> Any:
        """The answer, of the class that belongs to the request.  Raises NoAnswer.

        CommandFailed: this cannot even be asked, as a number or a name is too large.
        """
        from odradek.broker.network.broker_client import BrokerClient
        from odradek.protocol.errors import DecodeError, EncodeError

        if address not in self._clients:
            self._clients[address] = BrokerClient(
                address.host, address.port, client_id=client.CLIENT_ID, timeout_s=self._timeout_s
            )
        try:
            return await self._clients[address].send(request, version=version)
        except EncodeError as error:
            raise CommandFailed(f"cannot encode the request: {error}") from error
        except (OSError, DecodeError) as error:
            raise RetriableError(f"the broker at {_failure_reason(address, error)}") from error

    def close(self) -> None:
        for broker_client in self._clients.values():
            broker_client.close()


def _failure_reason(address: Address, error: Exception) -> str:
    """What the client says begins with the address; what the system says does not."""
    message = str(error)
    if message.startswith(f"{address} "):
        return message
    number = getattr(error, "errno", None)
    return f"{address} failed to respond: {os.strerror(number) if number else message}"


def format_error_code(error_code: int) -> str:
    """What an error code of the protocol says."""
    from odradek.protocol.error_codes import ErrorCode

    error = ErrorCode.for_code(error_code)
    return f"{error.name}: {error.message}"
