"""Frames that are no requests, and requests of APIs and versions that nobody serves."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.header import KEY_AND_VERSION
from tests.interop.differential_requests import Scope, Step
from tests.interop.differential_side import CORRELATION_ID
from tests.support.wire_client import frame

KEYS_OF_NOBODY = (-1, 999, 32_767)
AWAY = (-1, -32_768, 50, 32_767)


def scenario(scope: Scope) -> Iterator[Step]:
    for key in sorted(scope.versions):
        if not scope.of(key):
            continue
        low, high = scope.versions[key]
        for version in {*AWAY, low - 1}:
            if key is not ApiKey.API_VERSIONS:
                name = f"{key.name} in version {version}"
                yield Step(name, key, high, raw=_of(key, high, key, version))
        yield from _bodies(key, high)
    for version in AWAY if scope.of(ApiKey.API_VERSIONS) else ():
        raw = _of(ApiKey.API_VERSIONS, 0, ApiKey.API_VERSIONS, version)
        yield Step(f"versions in version {version}", ApiKey.API_VERSIONS, 0, raw=raw)
    yield from _headers()


def _of(key: ApiKey, version: int, said_key: int, said_version: int) -> bytes:
    raw = bytearray(frame(key, version, correlation_id=CORRELATION_ID))
    KEY_AND_VERSION.pack_into(raw, 4, said_key, said_version)
    return bytes(raw)


def _bodies(key: ApiKey, version: int) -> Iterator[Step]:
    whole = frame(key, version, correlation_id=CORRELATION_ID)[4:]
    header = len(pack(">hhih", 0, 0, 0, 0)) + len("wire-client")
    for name, body in {
        "cut": whole[:-1],
        "without a body": whole[:header],
        "of rubbish": whole[:header] + b"\xff" * 40,
    }.items():
        if not (key is ApiKey.API_VERSIONS and name == "of rubbish"):
            yield Step(f"{key.name} {name}", key, version, raw=_sized(body))


def _headers() -> Iterator[Step]:
    for number in KEYS_OF_NOBODY:
        raw = _of(ApiKey.METADATA, 1, number, 0)
        yield Step(f"an API {number}", ApiKey.METADATA, 1, raw=raw)
    for name, raw in {
        "a negative size": pack(">i", -1),
        "the most negative size": pack(">i", -(2**31)),
        "a size of 0": pack(">i", 0),
        "a size beyond the limit": pack(">i", 2**31 - 1),
        "a header of 1 byte": _sized(b"\0"),
        "a header without a client": _sized(pack(">hhi", 3, 1, CORRELATION_ID)),
        "a client of negative length": _sized(pack(">hhih", 3, 1, CORRELATION_ID, -2)),
        "a client that is cut": _sized(pack(">hhih", 3, 1, CORRELATION_ID, 100)),
        "a client that is no text": _sized(pack(">hhih", 3, 1, CORRELATION_ID, 2) + b"\xff\xfe"),
        "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    }.items():
        yield Step(name, ApiKey.METADATA, 1, raw=raw)


def _sized(body: bytes) -> bytes:
    return pack(">i", len(body)) + body
