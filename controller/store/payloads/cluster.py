"""Values that a cluster has once: cluster id, finalized features, last block of producer ids.

/cluster/id

    {"version":"1","id":"<22 characters of base64url>"}

/feature

    {"features":{"F":{"max_version_level":3}},"version":2,"status":1}

    v1  each feature has a min_version_level too
    v2  only the finalized level

/latest_producer_id_block

    {"version":1,"broker":1,"block_start":"0","block_end":"999"}

    Both ends belong to the block.  The znode has no value before the first block is allocated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from odradek.controller.store import paths
from odradek.controller.store.payloads.json_object import JsonObject, write_json


@dataclass(frozen=True, slots=True)
class ClusterId:
    id: str
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        return write_json({"version": "1", "id": self.id}, self.extra)

    @classmethod
    def decode(cls, value: bytes, path: str = paths.CLUSTER_ID) -> ClusterId:
        fields = JsonObject.parse(value, path)
        return cls(fields.text("id"), fields.fields_except({"version", "id"}))


class FeatureStatus(IntEnum):
    """Whether features are enabled: only with inter.broker.protocol.version 2.7 or later."""

    DISABLED = 0
    ENABLED = 1


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The finalized level of each feature (KIP-584).  Kafka: FeatureZNode."""

    status: FeatureStatus
    levels: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self, *, version: int = 2) -> bytes:
        """Version 1 is for ``inter.broker.protocol.version`` below 3.3."""
        assert version in (1, 2), version
        names = ("max_version_level", "min_version_level")[: 3 - version]
        levels = {feature: dict.fromkeys(names, level) for feature, level in self.levels.items()}
        fields = {"features": levels, "version": version, "status": int(self.status)}
        return write_json(fields, self.extra)

    @classmethod
    def decode(cls, value: bytes, path: str = paths.FEATURE) -> FinalizedFeatures:
        fields = JsonObject.parse(value, path)
        version, status = fields.int32("version"), fields.int32("status")
        if version not in (1, 2):
            fields.raise_corrupt(f"unknown version {version}")
        if status not in _STATUSES:
            fields.raise_corrupt(f"unknown status {status}")
        if not fields.has("features"):
            fields.raise_corrupt("features is missing")
        levels = {
            name: _decode_level(
                name, feature, min_level=feature.int32("min_version_level") if version == 1 else 1
            )
            for name, feature in fields.object_map("features").items()
        }
        return cls(
            FeatureStatus(status), levels, fields.fields_except({"version", "status", "features"})
        )


def _decode_level(name: str, fields: JsonObject, *, min_level: int) -> int:
    level = fields.int32("max_version_level")
    if not 1 <= min_level <= level:
        fields.raise_corrupt(f"invalid level of feature {name}: {level}")
    return level


_STATUSES = frozenset(map(int, FeatureStatus))


@dataclass(frozen=True, slots=True)
class ProducerIdsBlock:
    """The last allocated block of producer ids and its broker.  Kafka: ProducerIdsBlock."""

    broker_id: int
    block_start: int
    block_end: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        fields = {
            "version": 1,
            "broker": self.broker_id,
            "block_start": str(self.block_start),
            "block_end": str(self.block_end),
        }
        return write_json(fields, self.extra)

    @classmethod
    def decode(cls, value: bytes, path: str = paths.PRODUCER_ID_BLOCK) -> ProducerIdsBlock:
        fields = JsonObject.parse(value, path)
        start, end = fields.int64_from_text("block_start"), fields.int64_from_text("block_end")
        if not 0 <= start <= end:
            fields.raise_corrupt(f"invalid block of producer ids: {start} to {end}")
        extra = fields.fields_except({"version", "broker", "block_start", "block_end"})
        return cls(fields.int32("broker"), start, end, extra)
