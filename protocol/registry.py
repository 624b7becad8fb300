"""Maps an API key to its request and response classes and their versions. Kafka: ApiKeys.

The registry has every API with a schema; the broker's routes decide which of them are *served*.
The module of an API is imported on its first lookup.

Owner: none; the table only grows, by one entry per API.
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
    """One API.  ``versions`` have a schema; a broker may advertise the ``stable`` ones."""

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
    # Example: ListOffsets is declared in list_offsets.py, as ListOffsetsRequest and ...Response.
    name = "".join(word.capitalize() for word in stem.split("_"))
    module = import_module(f"odradek.protocol.api.{stem}")
    request, response = getattr(module, name + "Request"), getattr(module, name + "Response")
    schema = request.__schema__
    unstable = schema.unstable
    last_stable = unstable.low - 1 if unstable.low <= unstable.high else schema.versions.high
    stable = Versions(schema.versions.low, last_stable)
    return Api(key, name, request, response, schema.versions, schema.flexible, stable)


def all_apis() -> list[Api]:
    """Return all APIs, ordered by key."""
    return [api(key) for key in ApiKey]
