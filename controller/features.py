"""The finalized features of the cluster (KIP-584), which every broker must support.

Kafka: KafkaController.setupFeatureVersioning and processFeatureUpdates.

The first controller creates the node /feature.  Features are enabled if
inter.broker.protocol.version is at least 2.7; below, the node holds none.  The controller rejects a
broker that does not support all finalized features.

A new cluster may start with finalized features.  An existing cluster keeps its features until an
administrator updates them, because an older version may be started on its store again.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from odradek.controller.feature_updates import (
    FeatureUpdate,
    FeatureUpdateResults,
    apply_atomically,
    apply_individually,
    is_supported,
)
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.metadata_version import MetadataVersion
from odradek.controller.metadata_writer import MetadataWriter
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.store.payloads.cluster import FeatureStatus, FinalizedFeatures
from odradek.protocol.errors import InvalidRequest

log = logging.getLogger("kafka.controller")

FEATURE_VERSIONING_SINCE = MetadataVersion((2, 7), 0)
#: From this version on, the node holds only the finalized levels.
MAX_LEVEL_ONLY_SINCE = MetadataVersion((3, 3), 0)


class ClusterFeatures:
    """The finalized features; empty until ``load``."""

    def __init__(
        self,
        reader: MetadataReader,
        writer: MetadataWriter,
        metadata_version: MetadataVersion,
        initial_levels: Mapping[str, int],
    ) -> None:
        """``initial_levels`` are the finalized levels of a new cluster."""
        self._reader = reader
        self._writer = writer
        self._initial_levels = initial_levels
        self._is_feature_versioning_supported = metadata_version >= FEATURE_VERSIONING_SINCE
        self._payload_version = 2 if metadata_version >= MAX_LEVEL_ONLY_SINCE else 1
        self._finalized_levels: Mapping[str, int] = {}

    async def load(self) -> None:
        """Read the finalized features, and write /feature if its status or levels must change."""
        current = await self._reader.get_finalized_features()
        target = self._target_features(current)
        if target != current:
            log.info("Finalized features: %s, status %s", target.levels, target.status.name)
            await self._writer.write_features(target, version=self._payload_version)
        self._finalized_levels = target.levels

    def are_supported_by(self, broker: BrokerRegistration) -> bool:
        return all(
            is_supported(feature, level, [broker])
            for feature, level in self._finalized_levels.items()
        )

    async def update(
        self,
        updates: Collection[FeatureUpdate],
        brokers: Collection[BrokerRegistration],
        *,
        is_atomic: bool,
        should_write: bool,
    ) -> FeatureUpdateResults:
        """Apply all updates or none if ``is_atomic``, else each valid one."""
        if not self._is_feature_versioning_supported:
            raise InvalidRequest(
                "Feature versioning is disabled: inter.broker.protocol.version is below 2.7."
            )
        apply = apply_atomically if is_atomic else apply_individually
        levels, results = apply(updates, self._finalized_levels, brokers)
        if should_write and levels != self._finalized_levels:
            current = await self._reader.get_finalized_features()
            extra = current.extra if current else {}
            target = FinalizedFeatures(FeatureStatus.ENABLED, levels, extra)
            await self._writer.write_features(target, version=self._payload_version)
            log.info("Updated finalized features: %s", levels)
            self._finalized_levels = levels
        return results

    def _target_features(self, current: FinalizedFeatures | None) -> FinalizedFeatures:
        """Enabled features keep their levels, unless features must be disabled."""
        extra = current.extra if current else {}
        if not self._is_feature_versioning_supported:
            return FinalizedFeatures(FeatureStatus.DISABLED, extra=extra)
        if current is None:
            return FinalizedFeatures(FeatureStatus.ENABLED, self._initial_levels)
        levels = current.levels if current.status is FeatureStatus.ENABLED else {}
        return FinalizedFeatures(FeatureStatus.ENABLED, levels, extra)
