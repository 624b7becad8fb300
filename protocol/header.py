"""The headers of requests and responses, and whole frames.

request header   v0  key, version, correlation id: only ControlledShutdown 0
                 v1  adds the client id
                 v2  adds tagged fields: every flexible version
response header  v0  correlation id
                 v1  adds tagged fields: every flexible version, except those of ApiVersions,
                     whose client does not know yet which versions this broker supports
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import Buffer, decode_prefix, encode
from odradek.protocol.errors import DecodeError
from odradek.protocol.registry import api
from odradek.protocol.schema import Message, int16, int32, string

KEY_AND_VERSION = Struct(">hh")
#: Correlation id and the length of the client id, after key and version.
_REQUEST_IDS = Struct(">4xih")
SIZE = Struct(">i")
#: Size and correlation id; the flexible one adds an empty tag section.
_RESPONSE_HEAD, _FLEXIBLE_RESPONSE_HEAD = Struct(">ii"), Struct(">iix")


class RequestHeader(Message, versions="0-2", flexible="2+"):
    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    # Never compact: a broker must be able to read it in a request of any version.
    client_id: str | None = string("1+", nullable="1+", default="", ignorable=True, compact=False)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: int = int32()


def request_header_version(key: ApiKey, version: int) -> int:
    if key is ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version in api(key).flexible else 1


@cache
def response_header_version(key: ApiKey, version: int) -> int:
    if key is ApiKey.API_VERSIONS:
        return 0
    return 1 if version in api(key).flexible else 0


def key_and_version(frame: Buffer) -> tuple[int, int]:
    """Return the first two fields of a request, for known and unknown APIs."""
    if len(frame) < KEY_AND_VERSION.size:
        raise DecodeError(f"a request of {len(frame)} bytes is too short for a header")
    return KEY_AND_VERSION.unpack_from(frame)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return the header of a request, and the position of its body.

    The version may have no schema. The header is then read like that of the nearest version, so
    that the broker can respond to an ApiVersions request of any version.
    """
    number, version = key_and_version(frame)
    try:
        key = ApiKey(number)
    except ValueError:
        raise DecodeError(f"unknown API key {number}") from None
    return decode_prefix(RequestHeader, request_header_version(key, version), frame)


def read_request_ids(frame: Buffer, header_version: int) -> tuple[int, str | None, int]:
    """Return correlation id, client id and the position of the body of a request.

    This is a fast path for ``decode_request_header``: it creates no object but the client id.
    """
    if header_version > 0 and len(frame) > _REQUEST_IDS.size:
        correlation_id, length = _REQUEST_IDS.unpack_from(frame)
        end = _REQUEST_IDS.size + length
        if length >= 0 and end < len(frame) and (header_version == 1 or not frame[end]):
            try:
                client_id = str(frame[_REQUEST_IDS.size : end], "utf-8")
            except UnicodeDecodeError as error:
                raise DecodeError(f"RequestHeader v{header_version}: {error}") from error
            return correlation_id, client_id, end + header_version - 1
    # Uncommon: a null client id, tagged fields, no body, or a malformed header.
    header, position = decode_prefix(RequestHeader, header_version, frame)
    return header.correlation_id, header.client_id, position


def response_frame(key: ApiKey, version: int, correlation_id: int, response: Message) -> list[Any]:
    """Return size, header and body, ready to send; record data and file regions are not copied."""
    is_flexible = response_header_version(key, version) == 1
    head = _FLEXIBLE_RESPONSE_HEAD if is_flexible else _RESPONSE_HEAD
    body = encode(response, version)
    size = head.size - SIZE.size + (len(body[0]) if len(body) == 1 else sum(map(len, body)))
    return _prepend_head(head.pack(size, correlation_id), body)


def request_frame(
    key: ApiKey, version: int, correlation_id: int, client_id: str | None, request: Message
) -> list[Any]:
    """Return size, header and body of a request, ready to send."""
    header = RequestHeader(
        request_api_key=key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    head = encode(header, request_header_version(key, version))[0]
    body = encode(request, version)
    size = len(head) + sum(map(len, body))
    return _prepend_head(SIZE.pack(size) + head, body)


def _prepend_head(head: bytes, body: list[Any]) -> list[Any]:
    if body and isinstance(body[0], bytes):
        body[0] = head + body[0]
        return body
    return [head, *body]
