"""Requests as handlers get them, and answers as clients do."""

import inspect
from typing import Any, TypeVar

from odradek.broker.request import Request, RequestContext
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.schema import Message
from tests.support.loops import finish

Sent = TypeVar("Sent", bound=Message)


def called(request: Sent, *, version: int | None = None, listener: str = "INSIDE") -> Request[Sent]:
    """In the last version, unless another is given."""
    schema = request.__schema__
    peer = RequestContext(connection_id="here-there-0", client_host="127.0.0.1", listener=listener)
    return Request(
        body=request,
        version=schema.versions.high if version is None else version,
        api_key=ApiKey(schema.key),
        correlation_id=1,
        client_id="a test",
        context=peer,
    )


def as_sent(message: Sent, *, version: int) -> Sent:
    """What is left of it after it has travelled in this version."""
    return decode(type(message), version, encode_bytes(message, version))


def answer(handle: Any, *needed: object, **options: Any) -> Any:
    """What the client gets, at once or later; the last of ``needed`` is the request."""
    *needed, request = needed
    call = called(request, **options)
    answered = handle(*needed, call)
    if inspect.isawaitable(answered):
        answered = finish(in_the_end(answered))
    return as_sent(answered, version=call.version)


async def in_the_end(answered: Any) -> Any:
    """What comes after all waiting, if there is any."""
    while inspect.isawaitable(answered):
        answered = await answered
    return answered


def versions_of(message: type[Message]) -> range:
    low, high = message.__schema__.versions
    return range(low, high + 1)
