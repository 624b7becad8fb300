"""The features that the cluster has agreed on, as the store has them (KIP-584).

Every broker watches the node /feature, which the controller writes; its version is the epoch that
clients are told.  What is not in force, is not there or cannot be read is no agreement.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.controller.broker_link import StartTask
from odradek.controller.feature_updates import SUPPORTED, TRANSACTION_VERSION
from odradek.controller.store import paths
from odradek.controller.store.base import (
    Exists,
    Get,
    MetadataStore,
    Node,
    SessionExpired,
    SessionState,
    WatchEvent,
)
from odradek.controller.store.payloads.cluster import FeatureStatus, FinalizedFeatures
from odradek.controller.store.payloads.fields import PayloadDamaged
from odradek.protocol.field import Versions

log = logging.getLogger(__name__)

UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Features:
    """What this broker supports, and the level that the cluster has agreed on."""

    supported: Mapping[str, Versions] = field(default_factory=lambda: SUPPORTED)
    finalized: Mapping[str, int] = field(default_factory=dict)
    epoch: int = UNKNOWN_EPOCH

    @property
    def transaction_version(self) -> int:
        return self.finalized.get(TRANSACTION_VERSION, 0)


class AgreedFeatures:
    """``current`` is as of the last look, over as many sessions as there are."""

    def __init__(self, store: MetadataStore, *, start_task: StartTask) -> None:
        self.current = Features()
        self._store = store
        self._start_task = start_task

    async def start(self) -> None:
        """The store's session is open."""
        self._store.listen(self._session_changed)
        await self.look()

    def _session_changed(self, state: SessionState) -> None:
        """The watch has gone with the session, if it was another."""
        if state is SessionState.CONNECTED:
            self._look_again()

    def _changed(self, _: WatchEvent) -> None:
        self._look_again()

    def _look_again(self) -> None:
        self._start_task(self.look(), name="agreed-features")

    async def look(self) -> None:
        """``current`` is what the store has by now."""
        try:
            _, found = await self._store.run(
                [Exists(paths.FEATURE, self._changed), Get(paths.FEATURE)]
            )
        except SessionExpired:
            log.info("The features of the cluster are looked for again in the next session")
            return
        self.current = _agreed(found) if isinstance(found, Node) else Features()


def _agreed(node: Node) -> Features:
    try:
        written = FinalizedFeatures.decode(node.value)
    except PayloadDamaged as damage:
        log.error("The features of the cluster cannot be read: %s", damage)
        return Features()
    if written.status is not FeatureStatus.ENABLED:
        return Features()
    return Features(finalized=written.levels, epoch=node.stat.version)
