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
    Outcomes,
    decide_all,
    decide_each,
    is_supported,
)
from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.metadata_writes import MetadataWrites
from odradek.controller.request_versions import InterBrokerVersion
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.store.payloads.cluster import FeatureStatus, FinalizedFeatures
from odradek.protocol.errors import InvalidRequest

log = logging.getLogger(__name__)

IN_FORCE_SINCE = InterBrokerVersion((2, 7), 0)
#: From this version on the node holds only the levels that are in force.
WITHOUT_LOWEST_SINCE = InterBrokerVersion((3, 3), 0)


class Features:
    """What was agreed on; nothing until it is loaded."""

    def __init__(
        self,
        reads: MetadataReads,
        writes: MetadataWrites,
        spoken: InterBrokerVersion,
        first_levels: Mapping[str, int],
    ) -> None:
        """``first_levels`` are those of a new cluster."""
        self._reads = reads
        self._writes = writes
        self._first_levels = first_levels
        self._are_in_force = spoken >= IN_FORCE_SINCE
        self._payload_version = 2 if spoken >= WITHOUT_LOWEST_SINCE else 1
        self._levels: Mapping[str, int] = {}

    async def load(self) -> None:
        """Read what is agreed on, and write whether it is in force."""
        found = await self._reads.features()
        meant = self._meant(found)
        if meant != found:
            log.info("The features of the cluster are %s, %s", meant.levels, meant.status.name)
            await self._writes.write_features(meant, version=self._payload_version)
        self._levels = meant.levels

    def are_supported_by(self, broker: BrokerRegistration) -> bool:
        return all(
            is_supported(feature, level, [broker]) for feature, level in self._levels.items()
        )

    async def update(
        self,
        updates: Collection[FeatureUpdate],
        brokers: Collection[BrokerRegistration],
        *,
        is_whole: bool,
        is_written: bool,
    ) -> Outcomes:
        """Change levels, all or none with ``is_whole``; else each as it may be."""
        if not self._are_in_force:
            raise InvalidRequest("Features are not in force: see inter.broker.protocol.version.")
        decide = decide_all if is_whole else decide_each
        levels, outcomes = decide(updates, self._levels, brokers)
        if is_written and levels != self._levels:
            found = await self._reads.features()
            extra = found.extra if found else {}
            meant = FinalizedFeatures(FeatureStatus.ENABLED, levels, extra)
            await self._writes.write_features(meant, version=self._payload_version)
            log.info("The features of the cluster are %s now", levels)
            self._levels = levels
        return outcomes

    def _meant(self, found: FinalizedFeatures | None) -> FinalizedFeatures:
        """What was agreed on while features were in force stays, unless they are no longer."""
        extra = found.extra if found else {}
        if not self._are_in_force:
            return FinalizedFeatures(FeatureStatus.DISABLED, extra=extra)
        if found is None:
            return FinalizedFeatures(FeatureStatus.ENABLED, self._first_levels)
        levels = found.levels if found.status is FeatureStatus.ENABLED else {}
        return FinalizedFeatures(FeatureStatus.ENABLED, levels, extra)
