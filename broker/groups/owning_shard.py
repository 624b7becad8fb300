"""The part of a shard that a group uses.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.broker.coordinator.batches import KeyValue
from odradek.broker.coordinator.partition_log import ReplicationCallback
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.group import Group
from odradek.storage.unified_log import LogAppendInfo


class CoordinatorLog(Protocol):
    """The part of the shard's log that groups use."""

    def append(self, records: Sequence[KeyValue], /) -> LogAppendInfo: ...

    def when_replicated(
        self, append_info: LogAppendInfo, callback: ReplicationCallback, /
    ) -> None: ...


class OwningShard(Protocol):
    """The shard; a group that changes its protocol replaces itself in ``groups``."""

    @property
    def context(self) -> GroupContext: ...

    @property
    def log(self) -> CoordinatorLog: ...

    @property
    def groups(self) -> dict[str, Group]: ...
