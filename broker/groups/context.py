"""What groups need of the world: time, ids, settings.  Tests have a world of their own.

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
    """The part of an event loop that is needed: time that never jumps, and futures."""

    def create_future(self) -> asyncio.Future[Any]: ...


@dataclass(frozen=True, slots=True)
class GroupContext:
    """Shared by all groups of a broker."""

    settings: GroupSettings
    loop: EventLoop
    #: The system's clock, for what is written down.
    now_ms: Callable[[], int]
    #: Makes the part of a member's id that nobody else has.
    new_uuid: Callable[[], str]
    consumer_settings: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)
    #: The cluster's topics, to be assigned.
    topics_provider: TopicsProvider = field(
        default_factory=lambda: TopicsProvider(MetadataSnapshot)
    )
    #: Groups of the consumer protocol that have settings of their own.
    group_configs: Mapping[str, OneGroupSettings] = field(default_factory=dict)

    def group_settings_for(self, group_id: str) -> OneGroupSettings | ConsumerGroupSettings:
        """How long members may be silent, and how often they are to be heard."""
        return self.group_configs.get(group_id, self.consumer_settings)
