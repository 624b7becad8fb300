"""The answer of a broker on this machine to any request, both in the JSON of kafka_json.

For recording what a real broker says: no client library would send what is wrong.
"""

import socket
from collections.abc import Mapping
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, decode_prefix
from odradek.protocol.header import ResponseHeader, request_frame, response_header_version
from odradek.protocol.registry import api
from tests.support.kafka_json import from_json, to_json
from tests.support.raw_request import LOOPBACK

TIMEOUT_S = 30
MESSAGE = "<message>"


def answer_to(port: int, key: ApiKey, version: int, request: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ConnectionError where the broker hangs up instead."""
    message = from_json(api(key).request, version, request)
    frame = b"".join(request_frame(key, version, 1, "recorder", message))
    with socket.create_connection((LOOPBACK, port), TIMEOUT_S) as connection:
        connection.sendall(frame)
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            body = stream.read(size)
    if not body:
        raise ConnectionError(f"no answer to {key.name} v{version}")
    _, position = decode_prefix(ResponseHeader, response_header_version(key, version), body)
    return to_json(decode(api(key).response, version, body, position), version)


def without_words(answer: Any) -> Any:
    """With placeholders for error messages: that there is one is a fact, its words are not."""
    match answer:
        case dict():
            return {
                name: MESSAGE if name == "errorMessage" and value else without_words(value)
                for name, value in answer.items()
            }
        case list():
            return [without_words(element) for element in answer]
    return answer
