"""What a group needs of the shard that it is in.

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
    """Where groups are stored."""

    def append(self, records: Sequence[KeyValue], /) -> LogAppendInfo: ...

    def when_replicated(
        self, append_info: LogAppendInfo, callback: ReplicationCallback, /
    ) -> None: ...


class OwningShard(Protocol):
    """The shard; a group that becomes one of the other kind puts that in its own place."""

    @property
    def context(self) -> GroupContext: ...

    @property
    def log(self) -> CoordinatorLog: ...

    @property
    def groups(self) -> dict[str, Group]: ...
