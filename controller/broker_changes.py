"""Brokers come, go, and return: who is registered, and what changes with it.

    joined     it gets the whole picture, then what it has replicas of; whoever waited for a leader
               may have one now; what waited for the broker goes on
    left       what it led is led by others, and it is in sync with nothing any more
    returned   by another registration than we know, so with another epoch: it left and joined
    changed    its registration has other endpoints or features; all are told
    refused    it lacks a feature of the cluster, or a listener by which brokers find each other: it
               is as if it were not there, since it could not be told what it leads

One broker that nobody finds must not keep the others from having a controller, as it does in Kafka.
But if we find fewer than half of those that are registered, it is we who are not found: what they
have would be taken for lost, so another is to be the controller.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from odradek.controller.broker_link import BrokerChannels
from odradek.controller.context import Broker
from odradek.controller.features import Features
from odradek.controller.machinery import Machinery
from odradek.controller.offline_replicas import OfflineReplicas
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.tree_watches import TreeWatches

log = logging.getLogger(__name__)


class Deletions(Protocol):
    """The part of the deletion of topics that a broker's return needs."""

    async def resume(self, topics: Collection[str]) -> None: ...


class Reassigning(Protocol):
    """The part of reassignments that a broker's return needs."""

    async def brokers_joined(self, ids: Collection[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """What may go on when a broker joins."""

    deletions: Deletions
    reassignments: Reassigning


class Outnumbered(Exception):
    """Most brokers have other listeners than the controller."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a broker must have; ``finds`` tells whether it has the listeners that we go to."""

    features: Features
    finds: Callable[[BrokerRegistration], bool]

    def objection(self, registration: BrokerRegistration) -> str | None:
        if not self.finds(registration):
            return "has not the listeners by which brokers find each other"
        if not self.features.are_supported_by(registration):
            return "does not support the features of the cluster"
        return None


class Brokers:
    """The brokers that the controller works with, and the channels to them."""

    def __init__(
        self,
        machinery: Machinery,
        channels: BrokerChannels,
        watches: TreeWatches,
        terms: Terms,
        offline: OfflineReplicas,
        waiting: Waiting,
    ) -> None:
        self._machinery = machinery
        self._context = machinery.context
        self._channels = channels
        self._watches = watches
        self._terms = terms
        self._offline = offline
        self._waiting = waiting
        #: Why, of those in this epoch, to say so once.
        self._refused: dict[tuple[int, int], str] = {}

    async def load(self) -> None:
        """Note who is there, before anything else is known."""
        for broker in (await self._registered()).values():
            self._add(broker)
        log.info("Brokers %s are registered", sorted(self._context.brokers))

    async def look(self) -> None:
        """Some may have come or gone."""
        known = self._context.brokers
        now = await self._registered()
        joined = sorted(now.keys() - known.keys())
        left = sorted(known.keys() - now.keys())
        both = sorted(now.keys() & known.keys())
        returned = [each for each in both if now[each].epoch != known[each].epoch]
        if joined or left or returned:
            log.info("Brokers: %s joined, %s left, %s returned", joined, left, returned)
        # Those that left first, so that none of them is elected.
        if left or returned:
            await self._leave([*left, *returned])
        if joined or returned:
            await self._join([now[each] for each in sorted([*joined, *returned])])

    async def look_at(self, broker: int) -> None:
        """Its registration may have changed; if it is another one, ``look`` will tell."""
        now = (await self._machinery.reads.brokers([broker], self._watches.broker)).get(broker)
        known = self._context.brokers.get(broker)
        if now is not None and (known is None) == self._is_welcome(now):
            await self.look()
            return
        if now is None or known is None or now.epoch != known.epoch:
            return
        before, after = known.registration, now.registration
        if (before.endpoints, before.features) != (after.endpoints, after.features):
            log.info("Broker %d is at %s now", broker, ", ".join(map(str, after.endpoints)))
            self._context.brokers[broker] = now
            self._machinery.batch.update_metadata()

    async def _registered(self) -> dict[int, Broker]:
        reads = self._machinery.reads
        ids = await reads.broker_ids(self._watches.brokers)
        brokers = await reads.brokers(sorted(ids), self._watches.broker)
        found = [each for each in brokers.values() if self._terms.finds(each.registration)]
        if 2 * len(found) < len(brokers):
            raise Outnumbered(f"only {len(found)} of {len(brokers)} brokers have our listeners")
        return {each.id: each for each in brokers.values() if self._is_welcome(each)}

    def _is_welcome(self, broker: Broker) -> bool:
        why = self._terms.objection(broker.registration)
        life = broker.id, broker.epoch
        if why is None:
            self._refused.pop(life, None)
        elif self._refused.get(life) != why:
            self._refused[life] = why
            log.error("Broker %d %s: it is told nothing, and leads nothing", broker.id, why)
        return why is None

    def _add(self, broker: Broker) -> None:
        self._context.brokers[broker.id] = broker
        self._channels.add(broker)

    async def _join(self, brokers: Collection[Broker]) -> None:
        machinery = self._machinery
        for broker in brokers:
            self._add(broker)
        ids = [broker.id for broker in brokers]
        machinery.batch.update_metadata()
        machinery.batch.all_metadata(ids)
        # Brokers follow only leaders that they have heard of.
        machinery.batch.send()
        replicas = [replica for each in ids for replica in self._context.replicas_on(each)]
        await machinery.replicas.move(replicas, ReplicaState.ONLINE)
        await machinery.partitions.elect_missing()
        await self._waiting.reassignments.brokers_joined(ids)
        topics = {replica.partition.topic for replica in replicas} & self._context.to_delete
        if topics:
            log.info("Topics %s may be deleted from brokers that are back", sorted(topics))
            await self._waiting.deletions.resume(sorted(topics))

    async def _leave(self, brokers: Collection[int]) -> None:
        replicas = [replica for each in brokers for replica in self._context.replicas_on(each)]
        for broker in brokers:
            self._context.forget_broker(broker)
            self._channels.remove(broker)
        await self._offline.take_out(replicas)
