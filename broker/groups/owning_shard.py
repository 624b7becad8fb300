"""What a group needs of the shard that it is in.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.broker.coordinator.batches import KeyValue
from odradek.broker.coordinator.partition_log import Told
from odradek.broker.groups.group import Group
from odradek.broker.groups.world import World
from odradek.storage.log import Written


class HomeLog(Protocol):
    """Where groups are stored."""

    def append(self, records: Sequence[KeyValue], /) -> Written: ...

    def when_replicated(self, written: Written, tell: Told, /) -> None: ...


class Home(Protocol):
    """The shard; a group that becomes one of the other kind puts that in its own place."""

    @property
    def world(self) -> World: ...

    @property
    def log(self) -> HomeLog: ...

    @property
    def groups(self) -> dict[str, Group]: ...
