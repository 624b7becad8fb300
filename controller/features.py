"""Which features the whole cluster has agreed on (KIP-584), and which brokers support them all.

The node /feature is there from the first controller on.  It is in force while brokers speak version
2.7 or later among themselves; before that it holds nothing.  A broker that does not support what is
in force is not let in.

A new cluster may begin with features.  Whoever has a store already stays with what it has, until
somebody asks for more: an older version may be started on it again.

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

log = logging.getLogger(__name__)

FEATURE_VERSIONING_SINCE = MetadataVersion((2, 7), 0)
#: From this version on the node holds only the levels that are in force.
MAX_LEVEL_ONLY_SINCE = MetadataVersion((3, 3), 0)


class ClusterFeatures:
    """What was agreed on; nothing until it is loaded."""

    def __init__(
        self,
        reader: MetadataReader,
        writer: MetadataWriter,
        metadata_version: MetadataVersion,
        initial_levels: Mapping[str, int],
    ) -> None:
        """``first_levels`` are those of a new cluster."""
        self._reader = reader
        self._writer = writer
        self._initial_levels = initial_levels
        self._is_feature_versioning_supported = metadata_version >= FEATURE_VERSIONING_SINCE
        self._payload_version = 2 if metadata_version >= MAX_LEVEL_ONLY_SINCE else 1
        self._finalized_levels: Mapping[str, int] = {}

    async def load(self) -> None:
        """Read what is agreed on, and write whether it is in force."""
        current = await self._reader.get_finalized_features()
        target = self._target_features(current)
        if target != current:
            log.info("The features of the cluster are %s, %s", target.levels, target.status.name)
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
        """Change levels, all or none with ``is_whole``; else each as it may be."""
        if not self._is_feature_versioning_supported:
            raise InvalidRequest("Features are not in force: see inter.broker.protocol.version.")
        apply = apply_atomically if is_atomic else apply_individually
        levels, results = apply(updates, self._finalized_levels, brokers)
        if should_write and levels != self._finalized_levels:
            current = await self._reader.get_finalized_features()
            extra = current.extra if current else {}
            target = FinalizedFeatures(FeatureStatus.ENABLED, levels, extra)
            await self._writer.write_features(target, version=self._payload_version)
            log.info("The features of the cluster are %s now", levels)
            self._finalized_levels = levels
        return results

    def _target_features(self, current: FinalizedFeatures | None) -> FinalizedFeatures:
        """What was agreed on while features were in force stays, unless they are no longer."""
        extra = current.extra if current else {}
        if not self._is_feature_versioning_supported:
            return FinalizedFeatures(FeatureStatus.DISABLED, extra=extra)
        if current is None:
            return FinalizedFeatures(FeatureStatus.ENABLED, self._initial_levels)
        levels = current.levels if current.status is FeatureStatus.ENABLED else {}
        return FinalizedFeatures(FeatureStatus.ENABLED, levels, extra)
