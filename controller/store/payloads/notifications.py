"""Notifications of brokers to the controller, made through the tree.

/isr_change_notification/isr_change_N: the ISR of these partitions changed.  Kafka:
IsrChangeNotificationZNode.

    {"version":1,"partitions":[{"topic":"T","partition":0}]}

/log_dir_event_notification/log_dir_event_N: a log directory of this broker failed.  Kafka:
LogDirEventNotificationZNode.

    {"version":1,"broker":1,"event":1}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.store.payloads.json_object import JsonObject, write_json
from odradek.controller.store.payloads.partitions import decode_partitions, encode_partitions
from odradek.protocol.types import TopicPartition

LOG_DIR_FAILURE = 1


@dataclass(frozen=True, slots=True)
class IsrChange:
    partitions: tuple[TopicPartition, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        partitions = encode_partitions(self.partitions)
        return write_json({"version": 1, "partitions": partitions}, self.extra)

    @classmethod
    def decode(cls, value: bytes, path: str = "an ISR change notification") -> IsrChange:
        fields = JsonObject.parse(value, path)
        return cls(
            decode_partitions(fields.object_list("partitions")),
            fields.fields_except({"version", "partitions"}),
        )


@dataclass(frozen=True, slots=True)
class LogDirEvent:
    broker_id: int
    event: int = LOG_DIR_FAILURE
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        fields = {"version": 1, "broker": self.broker_id, "event": self.event}
        return write_json(fields, self.extra)

    @classmethod
    def decode(cls, value: bytes, path: str = "a log directory event") -> LogDirEvent:
        fields = JsonObject.parse(value, path)
        return cls(
            broker_id=fields.int32("broker"),
            event=fields.int32("event", default=LOG_DIR_FAILURE),
            extra=fields.fields_except({"version", "broker", "event"}),
        )
