"""The dependencies of all groups: clock, event loop, id generator, settings.  Tests pass fakes.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from odradek.broker.groups.consumer.topics import TopicsProvider
from odradek.broker.groups.expiration_timer import EventLoopTimers
from odradek.broker.metadata.metadata_snapshot import MetadataSnapshot
from odradek.broker.settings.consumer_groups import ConsumerGroupSettings, OneGroupSettings
from odradek.broker.settings.groups import GroupSettings


class EventLoop(EventLoopTimers, Protocol):
    """The part of an event loop that groups use: a monotonic clock, timers and futures."""

    def create_future(self) -> asyncio.Future[Any]: ...


@dataclass(frozen=True, slots=True)
class GroupContext:
    """The dependencies that all groups of a broker share."""

    settings: GroupSettings
    loop: EventLoop
    #: The wall clock in ms, for timestamps in records.
    now_ms: Callable[[], int]
    #: Returns the unique part of a member id.
    new_uuid: Callable[[], str]
    consumer_settings: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)
    #: The topics of the cluster, which assignors assign.
    topics_provider: TopicsProvider = field(
        default_factory=lambda: TopicsProvider(MetadataSnapshot)
    )
    #: Consumer groups with overridden settings, by group id.
    group_configs: Mapping[str, OneGroupSettings] = field(default_factory=dict)

    def group_settings_for(self, group_id: str) -> OneGroupSettings | ConsumerGroupSettings:
        """Return the session timeout and heartbeat interval settings of a consumer group."""
        return self.group_configs.get(group_id, self.consumer_settings)
