"""Registration of a broker in the store: top-level paths, cluster id, broker id, broker znode.

Kafka: KafkaZkClient (createTopLevelPaths, createOrGetClusterId, registerBroker).

A broker registers with an ephemeral znode; the zxid of its creation is the broker epoch.  If that
znode exists already, the session that owns it decides:

    this session                this broker created the znode, but lost the response: it is the
                                registration
    an earlier session of ours  the znode should have expired with that session; it is deleted and
                                created again
    any other session           another broker has the id, or this broker's previous process was
                                killed and its session has not expired yet, which the caller can
                                wait for (``register_with_timeout``)

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

log = logging.getLogger("kafka.zk")

#: Since this version a registration contains features.
FEATURES_SINCE = MetadataVersion((2, 7), 0)
UNKNOWN_BROKER_EPOCH = -1


class BrokerIdTaken(Exception):
    """Another broker is registered under our id, or our previous session has not expired yet."""


# Created by the first broker of a cluster


async def create_top_level_paths(store: MetadataStore) -> None:
    """Create the persistent znodes that are the parents of all others."""
    outcomes = await store.run([*map(Create, paths.with_parents(paths.PERSISTENT_ROOTS))])
    _raise_unless_expected(NodeExists, outcomes)


async def create_or_get_cluster_id(store: MetadataStore, proposed_id: str) -> str:
    """Return the cluster's id; if it has none yet, ``proposed_id`` becomes the id."""
    creations = [Create(paths.CLUSTER), Create(paths.CLUSTER_ID, ClusterId(proposed_id).encode())]
    _raise_unless_expected(NodeExists, await store.run(creations))
    return ClusterId.decode((await store.get(paths.CLUSTER_ID)).value).id


async def generate_broker_id(store: MetadataStore, *, reserved_broker_max_id: int) -> int:
    """Return an id that no broker had before.

    It is the version of a znode that each call writes, added to reserved.broker.max.id.
    """
    return reserved_broker_max_id + (await store.set(paths.BROKER_SEQUENCE, b"")).version


# The registration of this broker


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The id and the registration of a broker, and the listeners that brokers use among themselves.

    The controller connects to ``control_plane_listener`` if it is set, otherwise to
    ``inter_broker_listener``.  All brokers of a cluster use the same listener names.
    """

    broker_id: int
    registration: BrokerRegistration
    inter_broker_listener: str
    control_plane_listener: str = ""

    def has_required_listeners(self, registration: BrokerRegistration) -> bool:
        """Whether the controller can connect to that broker, and others can fetch from it."""
        names = {each.listener for each in registration.endpoints}
        return (
            self.inter_broker_listener in names
            and (self.control_plane_listener or self.inter_broker_listener) in names
        )


class BrokerRegistrar:
    """Creates the broker's znode, again in each new session."""

    def __init__(
        self, store: MetadataStore, identity: BrokerIdentity, metadata_version: MetadataVersion
    ) -> None:
        self._store = store
        self._broker_id = identity.broker_id
        self._registration = identity.registration
        self._payload_version = 5 if metadata_version >= FEATURES_SINCE else 4
        self._own_session_ids: set[int] = set()
        #: The broker epoch in this session.
        self.epoch = UNKNOWN_BROKER_EPOCH

    async def register_with_timeout(self, timeout_s: float) -> int:
        """Register; if the id is taken, wait up to ``timeout_s`` until its session expires."""
        try:
            return await self.register()
        except BrokerIdTaken as error:
            if not timeout_s:
                raise
            log.warning("%s; waiting up to %.0f s for its session to expire", error, timeout_s)
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
        """Create the broker's znode and return the broker epoch.  Raises BrokerIdTaken."""
        path = paths.broker(self._broker_id)
        stat = await self._create(path)
        while stat is None:
            stat = await self._get_after_node_exists(path) or await self._create(path)
        self._own_session_ids.add(self._store.session_id)
        self.epoch = stat.created_zxid
        addresses = ", ".join(map(str, self._registration.endpoints))
        log.info(
            "Registered broker %d with addresses: %s, czxid (broker epoch): %d",
            self._broker_id,
            addresses,
            self.epoch,
        )
        return self.epoch

    async def update(self, registration: BrokerRegistration) -> None:
        """Write other endpoints into the registration; the broker epoch stays the same."""
        self._registration = registration
        await self._store.set(paths.broker(self._broker_id), self._encode())

    async def _create(self, path: str) -> Stat | None:
        """Return None if the znode exists."""
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
        """Return the znode's stat if this session owns it, or None if it can be created again."""
        node = await self._get_node(path)
        if node is None or node.stat.ephemeral_owner == self._store.session_id:
            return None if node is None else node.stat
        if node.stat.ephemeral_owner not in self._own_session_ids:
            raise BrokerIdTaken(
                f"{path} is already registered by another session: broker.id must be unique"
            )
        log.info("Deleting %s, which an expired session of this broker created", path)
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
