"""What is changed resource by resource: each succeeds or fails alone.

One that is named twice in a request is refused both times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from odradek.broker.admin.resources import ResourceType
from odradek.broker.handlers.refusals import words
from odradek.protocol.errors import InvalidRequest, KafkaError, code_of


class Entry(Protocol):
    """One resource in a request."""

    resource_type: int
    resource_name: str
    configs: Any


class Request(Protocol):
    """One that names resources."""

    @property
    def resources(self) -> Sequence[Entry]: ...

    @property
    def validate_only(self) -> bool: ...


#: An entry of the response: code and words of an error, type and name of the resource.
Answer = TypeVar("Answer")


async def changed(
    request: Request, change: Callable[..., Awaitable[None]], answer: Callable[..., Answer]
) -> list[Answer]:
    """An answer for each.

    ``change`` takes kind, name, configs and whether only to look; it raises a KafkaError.
    """
    entries = request.resources
    named = Counter((each.resource_type, each.resource_name) for each in entries)
    answers = []
    for entry in entries:
        failure: KafkaError | None = None
        try:
            if named[entry.resource_type, entry.resource_name] > 1:
                raise InvalidRequest("A resource can be named once in a request.")
            await change(
                ResourceType.of(entry.resource_type),
                entry.resource_name,
                entry.configs,
                validate_only=request.validate_only,
            )
        except KafkaError as refusal:
            failure = refusal
        answers.append(_answer(entry, failure, answer))
    return answers


def refused(request: Request, failure: KafkaError, answer: Callable[..., Answer]) -> list[Answer]:
    """All of them, for one reason."""
    return [_answer(entry, failure, answer) for entry in request.resources]


def _answer(entry: Entry, failure: KafkaError | None, answer: Callable[..., Answer]) -> Answer:
    return answer(
        error_code=code_of(failure),
        error_message=words(failure),
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
    )
