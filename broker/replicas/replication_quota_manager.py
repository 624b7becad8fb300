"""How fast may replicas be copied that are not in sync anyway?  (KIP-73)

An operator who moves partitions sets a rate for what brokers send, another for what they fetch, and
names the replicas in the configuration of their topic:

    leader.replication.throttled.rate       of all that this broker sends to followers
    leader.replication.throttled.replicas   partition:broker, where the broker is the leader
    follower.replication.throttled.rate     of all that this broker fetches
    follower.replication.throttled.replicas partition:broker, where the broker is the follower
    replica.alter.log.dirs.io.max.bytes.per.second   of all copies between log directories

What has been sent counts when it has been: one answer may be too large, and the next ones wait for
it.  A rate is that of the last windows, at least of one.  Replicas that are in sync are counted and
never held up: else an idle rate would put them out of sync.

Owner: the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Self

from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.broker.settings.replication import ReplicationQuotas, ReplicationSettings
from odradek.protocol.types import TopicPartition
from odradek.storage.settings import TopicSettings

NO_LIMIT = 2**63 - 1
ALL_REPLICAS = "*"


class RateQuota:
    """What was copied in the last windows, beside what may be."""

    def __init__(
        self, *, windows: int, window_s: float, now_s: Callable[[], float] = monotonic
    ) -> None:
        self.limit = NO_LIMIT
        self._window_s = window_s
        self._total_window_s = windows * window_s
        self._now_s = now_s
        #: Each with the time when it began; the first is the oldest.
        self._windows: deque[tuple[float, int]] = deque()
        self._total_bytes = 0

    def record(self, size_bytes: int) -> None:
        now_s = self._now_s()
        self._drop_expired_windows(now_s)
        self._total_bytes += size_bytes
        if self._windows and now_s - self._windows[-1][0] < self._window_s:
            began_s, before_bytes = self._windows.pop()
            self._windows.append((began_s, before_bytes + size_bytes))
        else:
            self._windows.append((now_s, size_bytes))

    @property
    def is_exceeded(self) -> bool:
        if self.limit == NO_LIMIT:
            return False
        now_s = self._now_s()
        self._drop_expired_windows(now_s)
        return self._total_bytes > self.limit * self._elapsed_s(now_s)

    @property
    def throttle_time_s(self) -> float:
        """For how long it will be exceeded if nothing is copied."""
        if not self.is_exceeded:
            return 0.0
        now_s, began_s = self._now_s(), self._windows[0][0]
        until_forgotten_s = began_s + self._total_window_s - now_s
        if not self.limit:
            return until_forgotten_s
        return min(until_forgotten_s, began_s + self._total_bytes / self.limit - now_s)

    def _elapsed_s(self, now_s: float) -> float:
        began_s = self._windows[0][0] if self._windows else now_s
        return max(now_s - began_s, self._window_s)

    def _drop_expired_windows(self, now_s: float) -> None:
        while self._windows and now_s - self._windows[0][0] >= self._total_window_s:
            self._total_bytes -= self._windows.popleft()[1]


class ReplicationQuotaManager:
    """Of what this broker sends as a leader, or of what it fetches as a follower."""

    def __init__(self, rate: RateQuota) -> None:
        self.rate = rate
        #: Of each topic that has any, the numbers of throttled partitions; None are all.
        self._throttled_partitions: dict[str, frozenset[int] | None] = {}

    def configure(self, topic: str, replicas: tuple[str, ...], *, broker_id: int) -> None:
        """``replicas`` are ``partition:broker``, or ``*`` alone."""
        self._throttled_partitions.pop(topic, None)
        if ALL_REPLICAS in replicas:
            self._throttled_partitions[topic] = None
            return
        pairs = [entry.split(":") for entry in replicas if entry]
        if throttled := frozenset(
            int(partition) for partition, broker in pairs if int(broker) == broker_id
        ):
            self._throttled_partitions[topic] = throttled

    def is_throttled(self, partition: TopicPartition) -> bool:
        partitions = self._throttled_partitions.get(partition.topic, frozenset())
        return partitions is None or partition.partition in partitions

    @property
    def is_quota_exceeded(self) -> bool:
        """Whether anybody is held up now."""
        return bool(self._throttled_partitions) and self.rate.is_exceeded

    def should_throttle(self, partition: TopicPartition) -> bool:
        """Now; whoever is in sync does not ask."""
        return (
            bool(self._throttled_partitions)
            and self.is_throttled(partition)
            and self.rate.is_exceeded
        )

    def record(self, partition: TopicPartition, size_bytes: int) -> None:
        if self._throttled_partitions and self.is_throttled(partition):
            self.rate.record(size_bytes)


class ReplicationQuotaManagers:
    """An observer of topics' settings, and of the rates."""

    def __init__(self, broker_id: int, settings: ReplicationSettings) -> None:
        self._broker_id = broker_id
        windows, window_s = settings.quota_windows, settings.quota_window_s
        self.leader = ReplicationQuotaManager(RateQuota(windows=windows, window_s=window_s))
        self.follower = ReplicationQuotaManager(RateQuota(windows=windows, window_s=window_s))
        self.alter_log_dirs = RateQuota(
            windows=settings.alter_log_dirs_quota_windows,
            window_s=settings.alter_log_dirs_quota_window_s,
        )

    @classmethod
    def from_dynamic_settings(cls, settings: DynamicSettings, *, broker_id: int) -> Self:
        """As they are, and whenever they change."""
        quota_managers = cls(broker_id, settings.current.replication)
        quota_managers.update_quotas(settings.current.quotas)
        for topic, topic_settings in settings.topics.items():
            quota_managers.configure(topic, topic_settings)
        settings.add_listener(ReplicationQuotas, quota_managers.update_quotas)
        settings.add_topic_observer(quota_managers)
        return quota_managers

    def update_quotas(self, quotas: ReplicationQuotas) -> None:
        self.leader.rate.limit = quotas.leader_rate
        self.follower.rate.limit = quotas.follower_rate
        self.alter_log_dirs.limit = quotas.alter_log_dirs_rate

    def configure(self, topic: str, settings: TopicSettings | None) -> None:
        leaders = () if settings is None else settings.leader_throttled_replicas
        followers = () if settings is None else settings.follower_throttled_replicas
        self.leader.configure(topic, leaders, broker_id=self._broker_id)
        self.follower.configure(topic, followers, broker_id=self._broker_id)

    def configure_defaults(self, defaults: TopicSettings) -> None:
        """No server has replicas to name."""
