"""Stand-ins for what a broker knows of the cluster, and for whether it has the controller."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from odradek.protocol.types import TopicPartition


@dataclass
class Office:
    """Whether this broker's controller is in office."""

    is_active: bool = True


class FakeCluster:
    """Waits for nobody: ``late`` is what has not come when the time is over."""

    def __init__(self, *, late: Collection[str] | Collection[TopicPartition] = ()) -> None:
        self._late = late
        self.awaited_leaders: dict[str, list[int]] | None = None
        self.awaited_elected: Mapping[TopicPartition, int] | None = None
        self.timeout_s: float | None = None

    async def wait_for_leaders(
        self, partitions: Mapping[str, Collection[int]], *, timeout_s: float
    ) -> Collection[str]:
        self.awaited_leaders = {name: [*numbers] for name, numbers in partitions.items()}
        self.timeout_s = timeout_s
        return self._late

    async def wait_for_elections(
        self, leaders: Mapping[TopicPartition, int], *, timeout_s: float
    ) -> Collection[TopicPartition]:
        self.awaited_elected = leaders
        self.timeout_s = timeout_s
        return self._late

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition("t", 0), TopicPartition("t", 1)]
