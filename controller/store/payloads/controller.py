"""The registration of the controller, and the controller epoch.  Kafka: ControllerZNode.

/controller

    {"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}

    before v1  only the broker id, not JSON
    v1         version, brokerid, timestamp
    v2         kraftControllerEpoch: -1 unless the cluster migrates to KRaft (KIP-866)

/controller_epoch is a number in decimal digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.store import paths
from odradek.controller.store.payloads.json_object import (
    INT32_MAX,
    JsonObject,
    parse_number,
    write_json,
)

NO_KRAFT_EPOCH = -1
UNKNOWN_TIMESTAMP_MS = -1


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    broker_id: int
    timestamp_ms: int = UNKNOWN_TIMESTAMP_MS
    kraft_controller_epoch: int = NO_KRAFT_EPOCH
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        fields = {
            "version": 2,
            "brokerid": self.broker_id,
            "timestamp": str(self.timestamp_ms),
            "kraftControllerEpoch": self.kraft_controller_epoch,
        }
        return write_json(fields, self.extra)

    @classmethod
    def decode(cls, value: bytes, path: str = paths.CONTROLLER) -> ControllerRegistration:
        if value.isdigit():
            return cls(parse_number(value, path, max_value=INT32_MAX))
        fields = JsonObject.parse(value, path)
        return cls(
            broker_id=fields.int32("brokerid"),
            timestamp_ms=fields.int64_from_text("timestamp", default=UNKNOWN_TIMESTAMP_MS),
            kraft_controller_epoch=fields.int32("kraftControllerEpoch", default=NO_KRAFT_EPOCH),
            extra=fields.fields_except(_KNOWN_FIELDS),
        )


_KNOWN_FIELDS = frozenset(("version", "brokerid", "timestamp", "kraftControllerEpoch"))


@dataclass(frozen=True, slots=True)
class ControllerEpoch:
    """The epoch, incremented by each election; the znode's version fences a controller's writes."""

    epoch: int

    def encode(self) -> bytes:
        return str(self.epoch).encode()

    @classmethod
    def decode(cls, value: bytes, path: str = paths.CONTROLLER_EPOCH) -> ControllerEpoch:
        return cls(parse_number(value, path, max_value=INT32_MAX))
