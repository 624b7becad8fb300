"""How a broker comes into the tree: the roots, the cluster's id, its own id, its registration.

A broker registers by an ephemeral node whose creating transaction is its epoch.  A node of that
name may be there already:

    of this session     we made it, and did not hear that we had: it is the registration
    of one before ours  it should have gone with that session; it is taken away
    of any other        another broker has the id, or the last one of this name was killed so
                        lately that its session lives on, for which one may wait

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass

from odradek.controller.metadata_version import MetadataVersion
from odradek.controller.store import paths
from odradek.controller.store.base import (
    BadVersion,
    Create,
    Delete,
    MetadataStore,
    MultiFailed,
    NodeExists,
    NoNode,
    Outcome,
    SetData,
    Stat,
    StoreError,
    WatchEvent,
    ZNode,
)
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.store.payloads.cluster import ClusterId

log = logging.getLogger(__name__)

#: From this version on a registration names features.
FEATURES_SINCE = MetadataVersion((2, 7), 0)
UNKNOWN_BROKER_EPOCH = -1


class BrokerIdTaken(Exception):
    """Another broker has registered by our id, or the one before us is not forgotten yet."""


# What the first broker of a cluster makes, and all others find


async def create_top_level_paths(store: MetadataStore) -> None:
    """The persistent nodes that everything else is below."""
    outcomes = await store.run([*map(Create, paths.with_parents(paths.PERSISTENT_ROOTS))])
    _raise_unless_expected(NodeExists, outcomes)


async def create_or_get_cluster_id(store: MetadataStore, proposed_id: str) -> str:
    """``proposed`` if the cluster has no id yet."""
    creations = [Create(paths.CLUSTER), Create(paths.CLUSTER_ID, ClusterId(proposed_id).encode())]
    _raise_unless_expected(NodeExists, await store.run(creations))
    return ClusterId.decode((await store.get(paths.CLUSTER_ID)).value).id


async def generate_broker_id(store: MetadataStore, *, reserved_broker_max_id: int) -> int:
    """One that no broker had before: how often a node was written, above what may be set."""
    return reserved_broker_max_id + (await store.set(paths.BROKER_SEQUENCE, b"")).version


# The broker itself


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """What a broker registers as; ``listener`` is where other brokers find it.

    Controllers may go to another one of it; every broker of a cluster has the same ones.
    """

    broker_id: int
    registration: BrokerRegistration
    inter_broker_listener: str
    control_plane_listener: str = ""

    def has_required_listeners(self, registration: BrokerRegistration) -> bool:
        """Whether it can be told what it leads, and others can follow it."""
        names = {each.listener for each in registration.endpoints}
        return (
            self.inter_broker_listener in names
            and (self.control_plane_listener or self.inter_broker_listener) in names
        )


class BrokerRegistrar:
    """The broker's node, from session to session."""

    def __init__(
        self, store: MetadataStore, identity: BrokerIdentity, metadata_version: MetadataVersion
    ) -> None:
        self._store = store
        self._broker_id = identity.broker_id
        self._registration = identity.registration
        self._payload_version = 5 if metadata_version >= FEATURES_SINCE else 4
        self._own_session_ids: set[int] = set()
        #: The broker's epoch in this session.
        self.epoch = UNKNOWN_BROKER_EPOCH

    async def register_with_timeout(self, timeout_s: float) -> int:
        """As ``register``, but whoever has the id gets this long to be forgotten."""
        try:
            return await self.register()
        except BrokerIdTaken as error:
            if not timeout_s:
                raise
            log.warning("%s  It is given %.0f s to be forgotten", error, timeout_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._wait_until_deregistered()
        return await self.register()

    async def _wait_until_deregistered(self) -> None:
        has_changed = asyncio.Event()

        def on_change(_: WatchEvent) -> None:
            has_changed.set()

        while await self._store.exists(paths.broker(self._broker_id), on_change) is not None:
            await has_changed.wait()
            has_changed.clear()

    async def register(self) -> int:
        """The broker's epoch.  Raises BrokerIdTaken."""
        path = paths.broker(self._broker_id)
        stat = await self._create(path)
        while stat is None:
            stat = await self._get_after_node_exists(path) or await self._create(path)
        self._own_session_ids.add(self._store.session_id)
        self.epoch = stat.created_zxid
        addresses = ", ".join(map(str, self._registration.endpoints))
        log.info(
            "Broker %d is registered at %s in epoch %d", self._broker_id, addresses, self.epoch
        )
        return self.epoch

    async def update(self, registration: BrokerRegistration) -> None:
        """Tell of other endpoints; the epoch stays."""
        self._registration = registration
        await self._store.set(paths.broker(self._broker_id), self._encode())

    async def _create(self, path: str) -> Stat | None:
        """None if there is one."""
        create = Create(path, is_ephemeral=True)
        try:
            _, stat = await self._store.multi([create, SetData(path, self._encode(), version=0)])
        except MultiFailed as error:
            if isinstance(error.cause, NodeExists):
                return None
            raise error.cause from error
        assert isinstance(stat, Stat), stat
        return stat

    async def _get_after_node_exists(self, path: str) -> Stat | None:
        """The node that is there, if it is ours; None if it is gone by now."""
        node = await self._get_node(path)
        if node is None or node.stat.ephemeral_owner == self._store.session_id:
            return None if node is None else node.stat
        if node.stat.ephemeral_owner not in self._own_session_ids:
            raise BrokerIdTaken(
                f"{path} is already registered by another session: broker.id must be unique"
            )
        log.info("%s was left by a session of ours that is over, and is made again", path)
        outcomes = await self._store.run([Delete(path, version=node.stat.version)])
        _raise_unless_expected((NoNode, BadVersion), outcomes)
        return None

    async def _get_node(self, path: str) -> ZNode | None:
        try:
            return await self._store.get(path)
        except NoNode:
            return None

    def _encode(self) -> bytes:
        return self._registration.encode(version=self._payload_version)


def _raise_unless_expected(
    expected: type[StoreError] | tuple[type[StoreError], ...], outcomes: list[Outcome]
) -> None:
    for outcome in outcomes:
        if isinstance(outcome, StoreError) and not isinstance(outcome, expected):
            raise outcome
