"""What brokers are to be told of one event: one request of each kind for each of them.

The machines and the handlers of events say what has changed; ``send`` then makes the requests from
what the context says at that moment, so that a partition that changed twice is told once, in its
last state.  Sent are, in this order:

    LeaderAndIsr    to those that have replicas: what they lead and follow
    UpdateMetadata  to all: the partitions that changed; to newcomers: all there are
    StopReplica     to those that shall let go of replicas, and perhaps delete them

Only brokers are told that are registered, both when it is said and when it is sent.  Whoever is to
stop a replica and then, in the same event, to serve it is told only the latter.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from odradek.controller.broker_link import ControlRequest
from odradek.controller.context import Context, Replica
from odradek.controller.control_requests import Addressed, ControlRequests, Stop
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

Told = TypeVar("Told")


class Channels(Protocol):
    """The part of the brokers' channels that a batch needs."""

    def send(self, broker: int, request: ControlRequest, *, version: int) -> None: ...


class RequestBatch:
    """Collects until ``send``; then it is empty again."""

    def __init__(self, context: Context, requests: ControlRequests, channels: Channels) -> None:
        self._context = context
        self._requests = requests
        self._channels = channels
        self.clear()

    def clear(self) -> None:
        #: broker -> partition -> whether its replica is new
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = {}
        self._stops: dict[int, dict[TopicPartition, Stop]] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._all_are_told = False
        self._newcomers: set[int] = set()

    def leader_and_isr(
        self, brokers: Iterable[int], partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """Tell replicas who leads; everyone learns of it.  What is new stays so for the event."""
        for broker in brokers:
            if broker in self._context.brokers:
                told = self._leader_and_isr.setdefault(broker, {})
                told[partition] = is_new or told.get(partition, False)
                self._unstop(broker, partition)
        self.update_metadata([partition])

    def update_metadata(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Tell all brokers of these partitions, and in any case which brokers there are."""
        self._all_are_told = True
        self._changed.update(dict.fromkeys(partitions))

    def all_metadata(self, newcomers: Iterable[int]) -> None:
        """Tell these brokers of all partitions, which they know nothing of."""
        self._newcomers.update(newcomers)

    def stop_replica(self, replica: Replica, *, deletes: bool) -> None:
        """What is to be deleted stays so for the event."""
        partition, broker = replica
        if broker in self._context.brokers:
            stops = self._stops.setdefault(broker, {})
            deletes = deletes or (partition in stops and stops[partition].deletes)
            stops[partition] = Stop(self._context.leader_epoch(partition), deletes)

    def send(self) -> None:
        told = self._registered(self._leader_and_isr)
        for addressed in self._requests.leader_and_isr(told):
            self._log_leaders(addressed.broker, told[addressed.broker])
            self._send(addressed)
        newcomers = self._registered(dict.fromkeys(sorted(self._newcomers)))
        self._send_metadata(newcomers, [*self._context.partitions] if newcomers else ())
        if self._all_are_told:
            others = [each for each in self._context.brokers if each not in newcomers]
            self._send_metadata(others, self._changed)
        stops = self._registered(self._stops)
        for addressed in self._requests.stop_replica(stops):
            count = len(stops[addressed.broker])
            log.info("Broker %d is told to stop %d replicas", addressed.broker, count)
            self._send(addressed)
        self.clear()

    def _send_metadata(
        self, brokers: Collection[int], partitions: Collection[TopicPartition]
    ) -> None:
        if brokers:
            log.info("Brokers %s are told of %d partitions", [*brokers], len(partitions))
            for addressed in self._requests.update_metadata(brokers, partitions):
                self._send(addressed)

    def _send(self, addressed: Addressed) -> None:
        self._channels.send(addressed.broker, addressed.request, version=addressed.version)

    def _registered(self, by_broker: Mapping[int, Told]) -> dict[int, Told]:
        registered = self._context.brokers
        return {each: told for each, told in by_broker.items() if each in registered}

    def _unstop(self, broker: int, partition: TopicPartition) -> None:
        stops = self._stops.get(broker, {})
        if partition in stops and not stops[partition].deletes:
            del stops[partition]
            if not stops:
                del self._stops[broker]

    def _log_leaders(self, broker: int, partitions: Iterable[TopicPartition]) -> None:
        leaders = [self._context.leader(partition) for partition in partitions]
        leads = leaders.count(broker)
        log.info("Broker %d leads %d and follows %d", broker, leads, len(leaders) - leads)
