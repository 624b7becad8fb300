"""Finalized feature cache: the finalized features of the cluster, as in the store (KIP-584).

Every broker watches the znode /feature, which the controller writes; its version is the epoch that
clients receive.  If the znode is missing, disabled or unreadable, no feature is finalized.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.controller.controller_channel import StartTask
from odradek.controller.feature_updates import SUPPORTED_FEATURES, TRANSACTION_VERSION
from odradek.controller.store import paths
from odradek.controller.store.base import (
    Exists,
    GetData,
    MetadataStore,
    SessionExpired,
    SessionState,
    WatchEvent,
    ZNode,
)
from odradek.controller.store.payloads.cluster import FeatureStatus, FinalizedFeatures
from odradek.controller.store.payloads.json_object import CorruptPayload
from odradek.protocol.field import Versions

log = logging.getLogger("kafka.server")

UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Features:
    """The features that this broker supports, and the finalized levels of the cluster."""

    supported: Mapping[str, Versions] = field(default_factory=lambda: SUPPORTED_FEATURES)
    finalized: Mapping[str, int] = field(default_factory=dict)
    epoch: int = UNKNOWN_EPOCH

    @property
    def transaction_version(self) -> int:
        return self.finalized.get(TRANSACTION_VERSION, 0)


class FinalizedFeatureCache:
    """``current`` is the last value read; it is kept across sessions."""

    def __init__(self, store: MetadataStore, *, start_task: StartTask) -> None:
        self.current = Features()
        self._store = store
        self._start_task = start_task

    async def start(self) -> None:
        """Read the features and watch them.  The session of the store must be open."""
        self._store.add_session_listener(self._on_session_state_change)
        await self.refresh()

    def _on_session_state_change(self, state: SessionState) -> None:
        """Read again: the watch is lost if this is a new session."""
        if state is SessionState.CONNECTED:
            self._schedule_refresh()

    def _on_node_change(self, _: WatchEvent) -> None:
        self._schedule_refresh()

    def _schedule_refresh(self) -> None:
        self._start_task(self.refresh(), name="finalized-features")

    async def refresh(self) -> None:
        """Set ``current`` to the value in the store."""
        try:
            _, node = await self._store.run(
                [Exists(paths.FEATURE, self._on_node_change), GetData(paths.FEATURE)]
            )
        except SessionExpired:
            log.info("Session expired while reading finalized features; retrying in the next one")
            return
        self.current = _decode_features(node) if isinstance(node, ZNode) else Features()


def _decode_features(node: ZNode) -> Features:
    try:
        features = FinalizedFeatures.decode(node.value)
    except CorruptPayload as error:
        log.error("Failed to decode finalized features: %s", error)
        return Features()
    if features.status is not FeatureStatus.ENABLED:
        return Features()
    return Features(finalized=features.levels, epoch=node.stat.version)
