"""A connection to a broker on which any request of any version can be sent, and anything else too.

No client library would send most of what a broker must be able to answer, or to refuse.

Owner: the test's thread.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping
from typing import Any, Self, TypeVar

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, decode_prefix
from odradek.protocol.field import Array, Nested, WireType
from odradek.protocol.header import ResponseHeader, request_frame, response_header_version
from odradek.protocol.registry import api
from odradek.protocol.schema import Struct, default_value

TIMEOUT_S = 20
CLIENT_ID = "wire-client"

S = TypeVar("S", bound=Struct)


class HungUp(Exception):
    """The broker closed the connection instead of answering."""


class WireClient:
    """``address`` is host:port."""

    def __init__(self, address: str, *, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self._correlation_id = 0

    def call(self, key: ApiKey, version: int, /, **values: Any) -> Any:
        """The answer to a request with these values, as ``request`` takes them."""
        self.send(key, version, **values)
        return self.answer(key, version)

    def send(self, key: ApiKey, version: int, /, **values: Any) -> None:
        self._correlation_id += 1
        self.send_bytes(frame(key, version, correlation_id=self._correlation_id, **values))

    def send_bytes(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def answer(self, key: ApiKey, version: int) -> Any:
        """The next answer, which must be to the last request.  Raises HungUp, TimeoutError."""
        body = self.answer_bytes()
        header, position = decode_prefix(
            ResponseHeader, response_header_version(key, version), body
        )
        assert header.correlation_id == self._correlation_id
        return decode(api(key).response, version, body, position)

    def answer_bytes(self) -> bytes:
        """The next answer without its size."""
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def is_answered(self) -> bool:
        """Whether something has come that was not read yet."""
        poll = select.poll()  # select() takes no descriptor above 1,023
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(0))

    def is_hung_up(self) -> bool:
        """Waits until the broker has closed the connection, or says something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            try:
                piece = self.socket.recv(size - len(got))
            except ConnectionError as error:
                raise HungUp(f"after {len(got)} of {size} bytes") from error
            if not piece:
                raise HungUp(f"after {len(got)} of {size} bytes")
            got += piece
        return bytes(got)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def call(address: str, key: ApiKey, version: int, /, **values: Any) -> Any:
    """One request on a connection of its own."""
    with WireClient(address) as client:
        return client.call(key, version, **values)


def frame(key: ApiKey, version: int, /, *, correlation_id: int = 1, **values: Any) -> bytes:
    """A whole request, size included."""
    message = request(api(key).request, version, values)
    return b"".join(request_frame(key, version, correlation_id, CLIENT_ID, message))


def request(struct: type[S], version: int, values: Mapping[str, Any]) -> S:
    """With these values where they travel in the version, and defaults otherwise.

    Structs are mappings, so that one text of a request serves for all of its versions.
    """
    names = {field.name for field in struct.__schema__.fields}
    assert set(values) <= names, set(values) - names
    return struct(
        **{
            field.name: _value(field.type, version, values[field.name])
            if field.name in values and version in field.versions
            else default_value(field)
            for field in struct.__schema__.fields
        }
    )


def error_codes(answer: Any) -> set[int]:
    """All that are anywhere in it."""
    if isinstance(answer, list):
        return {code for each in answer for code in error_codes(each)}
    if not isinstance(answer, Struct):
        return set()
    found: set[int] = set()
    for field in answer.__schema__.fields:
        value = getattr(answer, field.name)
        found |= {value} if field.name.endswith("error_code") else error_codes(value)
    return found


def _value(wire_type: WireType, version: int, value: Any) -> Any:
    match wire_type:
        case Array(element) if value is not None:
            return [_value(element, version, each) for each in value]
        case Nested(struct) if value is not None:
            return request(struct, version, value)
    return value
