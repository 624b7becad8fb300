"""Replication throttles: limits the rate of copying replicas that are not in sync (KIP-73).

Kafka: ReplicationQuotaManager.

An operator who reassigns partitions sets one rate for sending and one for fetching, and lists the
throttled replicas in the topic config:

    leader.replication.throttled.rate       of all that this broker sends to followers
    leader.replication.throttled.replicas   partition:broker, where the broker is the leader
    follower.replication.throttled.rate     of all that this broker fetches
    follower.replication.throttled.replicas partition:broker, where the broker is the follower
    replica.alter.log.dirs.io.max.bytes.per.second   of all copies between log directories

Bytes are recorded after they were sent.  One response may therefore exceed the rate, and the next
ones wait.  The rate is measured over the last windows, at least over one.  Replicas that are in
sync are recorded but never throttled, because a low rate would put them out of sync.

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
    """The bytes copied in the last windows, and their limit."""

    def __init__(
        self, *, windows: int, window_s: float, now_s: Callable[[], float] = monotonic
    ) -> None:
        self.limit = NO_LIMIT
        self._window_s = window_s
        self._total_window_s = windows * window_s
        self._now_s = now_s
        #: Start time and bytes of each window, oldest first.
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
        """How long the quota stays exceeded if nothing more is copied."""
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
    """The throttle of what this broker sends as a leader, or fetches as a follower."""

    def __init__(self, rate: RateQuota) -> None:
        self.rate = rate
        #: The throttled partitions by topic; None means all.
        self._throttled_partitions: dict[str, frozenset[int] | None] = {}

    def configure(self, topic: str, replicas: tuple[str, ...], *, broker_id: int) -> None:
        """``replicas`` are ``partition:broker`` entries, or ``*`` alone."""
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
        """Whether any partition is throttled now."""
        return bool(self._throttled_partitions) and self.rate.is_exceeded

    def should_throttle(self, partition: TopicPartition) -> bool:
        """Whether to throttle now; callers do not call this for in-sync replicas."""
        return (
            bool(self._throttled_partitions)
            and self.is_throttled(partition)
            and self.rate.is_exceeded
        )

    def record(self, partition: TopicPartition, size_bytes: int) -> None:
        if self._throttled_partitions and self.is_throttled(partition):
            self.rate.record(size_bytes)


class ReplicationQuotaManagers:
    """All replication throttles; an observer of topic settings and of the rates."""

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
        """Create the throttles from the current settings and keep them up to date."""
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
        """Defaults of topics contain no throttled replicas."""
