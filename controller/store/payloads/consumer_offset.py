"""A committed offset of a consumer older than 0.9; OffsetCommit and OffsetFetch v0 use it.

/consumers/GROUP/offsets/T/P is a number in decimal digits.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.controller.store.payloads.json_object import INT64_MAX, parse_number


@dataclass(frozen=True, slots=True)
class ConsumerOffset:
    offset: int

    def encode(self) -> bytes:
        return str(self.offset).encode()

    @classmethod
    def decode(cls, value: bytes, path: str = "a consumer's offset") -> ConsumerOffset:
        return cls(parse_number(value, path, max_value=INT64_MAX))
