"""Which messages belong to an API, and in which versions?

Everything that has a schema is known; what is *served* is decided by the broker's routes alone.
The module of an API is imported when it is first asked for.

Owner: none; the table only grows, by one entry for each API.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.field import Versions
from odradek.protocol.schema import Message


@dataclass(frozen=True, slots=True)
class Api:
    """One API.  ``versions`` have a schema; ``stable`` are those a broker may advertise."""

    key: ApiKey
    name: str
    request: type[Message]
    response: type[Message]
    versions: Versions
    flexible: Versions
    stable: Versions


@cache
def api(key: ApiKey) -> Api:
    stem = key.name.lower()
    # ListOffsets is declared in list_offsets.py, as ListOffsetsRequest and ListOffsetsResponse.
    name = "".join(word.capitalize() for word in stem.split("_"))
    module = import_module(f"odradek.protocol.api.{stem}")
    request, response = getattr(module, name + "Request"), getattr(module, name + "Response")
    schema = request.__schema__
    unstable = schema.unstable
    last_stable = unstable.low - 1 if unstable.low <= unstable.high else schema.versions.high
    stable = Versions(schema.versions.low, last_stable)
    return Api(key, name, request, response, schema.versions, schema.flexible, stable)


def all_apis() -> list[Api]:
    """Every API, in the order of its key."""
    return [api(key) for key in ApiKey]
