"""Requests for which confluent-kafka has no function, sent over plaintext connections.

The connections support neither TLS nor SASL.  The addresses of the brokers come from metadata.
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
    """Run ``operation`` in an event loop and return its result.

    ``tool`` is the tool of Kafka that does the same; the error message for a security protocol
    other than plaintext names it.
    """
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
    """A broker did not give a usable response; a retry or another broker may give one."""


class BrokerConnections:
    """Keeps one connection to each broker that a request was sent to."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._clients: dict[Address, BrokerClient] = {}

    async def send(self, address: Address, request: Message, *, version: int) -> Any:
        """Return the response, an instance of the request's response class.

        Raises RetriableError if the broker does not respond, and CommandFailed if the request
        cannot be encoded, for example because a number or a name is too large.
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
    """Messages of BrokerClient start with the address already; messages of the system do not."""
    message = str(error)
    if message.startswith(f"{address} "):
        return message
    number = getattr(error, "errno", None)
    return f"{address} failed to respond: {os.strerror(number) if number else message}"


def format_error_code(error_code: int) -> str:
    """Return the name and the message of a protocol error code."""
    from odradek.protocol.error_codes import ErrorCode

    error = ErrorCode.for_code(error_code)
    return f"{error.name}: {error.message}"
