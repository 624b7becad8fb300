"""One broker's time as the controller, from its election to its resignation.

Everything that the controller knows and has under way belongs to its tenure and ends with it; the
next begins from the tree alone.  A tenure begins in this order:

    features       what brokers must support
    notifications  are forgotten: all that they could tell is read now
    brokers        who is there, and the channels to them
    topics         their partitions and who leads those; which of them shall go
    the picture    all brokers are told of each other, before any is told to follow another
    machines       the states of replicas and partitions; leaders for those that have none
    work           what the last controller had begun: reassignments, deletions, elections

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from odradek.controller import events
from odradek.controller.answers import Answers
from odradek.controller.broker_link import BrokerChannels, BrokerLink, LinkWorld, StartTask
from odradek.controller.brokers import Brokers, Terms, Waiting
from odradek.controller.context import Broker, Context
from odradek.controller.control_requests import ControlRequests
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.deletion_requests import DeletionRequests
from odradek.controller.election import Elected
from odradek.controller.event_queue import EventQueue
from odradek.controller.features import Features
from odradek.controller.isr import InSyncReplicas
from odradek.controller.log_dirs import LogDirs
from odradek.controller.machinery import Machinery
from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.metadata_writes import MetadataWrites
from odradek.controller.offline_replicas import OfflineReplicas
from odradek.controller.partition_machine import ElectionRules, PartitionMachine
from odradek.controller.preferred_leaders import PreferredLeaders
from odradek.controller.reassignment import Reassignments
from odradek.controller.registration import Identity
from odradek.controller.replica_machine import ReplicaMachine
from odradek.controller.request_batch import RequestBatch
from odradek.controller.request_versions import RequestVersions
from odradek.controller.store.base import MetadataStore
from odradek.controller.topic_changes import TopicChanges
from odradek.controller.topic_deletion import TopicDeletion
from odradek.controller.tree_watches import TreeWatches
from odradek.protocol.types import Uuid

log = logging.getLogger(__name__)

#: As Kafka waits before it looks for the first time at who leads too little.
FIRST_BALANCE_AFTER_S = 5


@dataclass(frozen=True, slots=True)
class ControllerWorld:
    """What the controller needs of the world around it."""

    connect: Callable[[Broker], BrokerLink]
    start_task: StartTask
    sleep: Callable[[float], Awaitable[None]]
    now_ms: Callable[[], int]
    new_topic_id: Callable[[], Uuid]
    #: The features that a new cluster begins with.
    first_features: Mapping[str, int] = field(default_factory=dict)
    #: Called when another broker, or none, is known to be the controller.
    controller_changed: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Office:
    """What one tenure after the other works with."""

    store: MetadataStore
    identity: Identity
    settings: Callable[[], ControllerSettings]
    world: ControllerWorld
    queue: EventQueue
    watches: TreeWatches


class Tenure:
    """The controller's parts, put together."""

    def __init__(self, office: Office, elected: Elected) -> None:
        self.elected = elected
        self.office = office
        self._balancing: asyncio.Task[None] | None = None
        watches, settings = office.watches, office.settings()
        self.channels = BrokerChannels(_links(office))
        self.machinery = machinery = _machinery(office, elected, self.channels)
        self.context = machinery.context
        self.deletion = TopicDeletion(machinery)
        self.deletion_requests = DeletionRequests(
            machinery, self.deletion, watches.deletions, is_enabled=settings.delete_topic_enable
        )
        self.reassignments = Reassignments(machinery, self.deletion, watches.reassignments)
        self.features = Features(
            machinery.reads, machinery.writes, settings.spoken, office.world.first_features
        )
        offline = OfflineReplicas(machinery, self.deletion)
        waiting = Waiting(self.deletion, self.reassignments)
        terms = Terms(self.features, office.identity.finds)
        self.brokers = Brokers(machinery, self.channels, watches, terms, offline, waiting)
        new_id = office.world.new_topic_id if settings.spoken.knows_topic_ids else None
        self.topics = TopicChanges(machinery, watches, new_id)
        self.isr = InSyncReplicas(machinery, watches.isr_changes)
        self.log_dirs = LogDirs(machinery, watches.log_dir_events, offline)
        self.preferred = PreferredLeaders(machinery, watches.preferred_elections)
        self.answers = Answers(self.context, self.log_dirs, self.deletion)

    async def begin(self) -> None:
        await self.features.load()
        await self.isr.forget_notifications()
        await self.log_dirs.forget_notifications()
        await self.brokers.load()
        await self.topics.load()
        await self.deletion_requests.look()
        batch = self.machinery.batch
        batch.update_metadata()
        batch.send()
        await self.machinery.replicas.start()
        await self.machinery.partitions.start()
        log.info("Ready to be the controller in epoch %d", self.elected.epoch)
        await self.reassignments.start()
        await self.deletion.start()
        await self.preferred.look()
        if self.office.settings().auto_leader_rebalance_enable:
            work = self._remind_of_balance()
            self._balancing = self.office.world.start_task(work, name="controller-balance")

    def end(self) -> None:
        """Nothing is written, and nobody is told anything more."""
        self.machinery.batch.clear()
        self.channels.close()
        if self._balancing is not None:
            self._balancing.cancel()

    async def _remind_of_balance(self) -> None:
        delay_s = FIRST_BALANCE_AFTER_S
        while True:
            await self.office.world.sleep(delay_s)
            self.office.queue.put_once(events.BalanceDue(self.elected.epoch))
            delay_s = self.office.settings().leader_imbalance_check_interval_seconds


def _links(office: Office) -> LinkWorld:
    world = office.world
    return LinkWorld(
        connect=world.connect,
        start_task=world.start_task,
        sleep=world.sleep,
        answered=lambda answer: office.queue.put(events.Answered(answer)),
    )


def _machinery(office: Office, elected: Elected, channels: BrokerChannels) -> Machinery:
    spoken = office.settings().spoken
    context = Context()
    context.epoch, context.epoch_version = elected.epoch, elected.epoch_version
    reads = MetadataReads(office.store)
    writes = MetadataWrites(office.store, context, reads)
    requests = ControlRequests(
        context,
        controller_id=office.identity.broker_id,
        versions=RequestVersions.of(spoken),
        listener=office.identity.listener,
    )
    batch = RequestBatch(context, requests, channels)
    rules = ElectionRules(
        allows_unclean=lambda: office.settings().unclean_leader_election_enable,
        marks_recovering=spoken.knows_recovering_leaders,
    )
    partitions = PartitionMachine(context, reads, writes, batch, rules)
    replicas = ReplicaMachine(context, reads, writes, batch)
    return Machinery(context, reads, writes, batch, partitions, replicas)
