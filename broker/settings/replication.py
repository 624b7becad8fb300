"""Settings of replication on one broker.  Names, ranges and defaults are Kafka 3.9's."""

from odradek.config.definition import Importance, UpdateMode, integer, long, text
from odradek.config.settings import Settings

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_SELECTORS = ("org.apache.kafka.common.replica.LeaderSelector", RACK_AWARE_SELECTOR)


def selector_rule(name: str) -> str | None:
    return None if name in _SELECTORS else f"must be one of {', '.join(_SELECTORS)}"


class ReplicationSettings(Settings):
    """Settings of replica fetchers, of ISR membership and of replication quotas."""

    high_watermark_checkpoint_interval_ms: int = long(
        "replica.high.watermark.checkpoint.interval.ms",
        default=5_000,
        importance=Importance.HIGH,
        doc="The interval at which high watermarks are written to the checkpoint file.",
    )
    num_replica_fetchers: int = integer(
        "num.replica.fetchers",
        default=1,
        update=UpdateMode.CLUSTER,
        importance=Importance.HIGH,
        doc="The number of connections that fetch from each leader.",
    )
    fetch_wait_max_ms: int = integer(
        "replica.fetch.wait.max.ms",
        default=500,
        importance=Importance.HIGH,
        doc="How long a leader waits for records before it responds to a follower; it should be "
        "less than `replica.lag.time.max.ms`.",
    )
    fetch_min_bytes: int = integer(
        "replica.fetch.min.bytes",
        default=1,
        importance=Importance.HIGH,
        doc="The number of bytes for which a leader waits before it responds to a follower.",
    )
    fetch_max_bytes: int = integer(
        "replica.fetch.max.bytes",
        default=1_048_576,
        at_least=0,
        importance=Importance.MEDIUM,
        doc="The number of bytes fetched from one partition at once; a larger batch is fetched "
        "whole.",
    )
    fetch_response_max_bytes: int = integer(
        "replica.fetch.response.max.bytes",
        default=10_485_760,
        at_least=0,
        importance=Importance.MEDIUM,
        doc="The number of bytes fetched at once from all partitions.",
    )
    fetch_backoff_ms: int = integer(
        "replica.fetch.backoff.ms",
        default=1_000,
        at_least=0,
        importance=Importance.MEDIUM,
        doc="The pause after a failed fetch from a partition or a leader.",
    )
    lag_time_max_ms: int = long(
        "replica.lag.time.max.ms",
        default=30_000,
        importance=Importance.HIGH,
        doc="A follower that has not reached its leader's log end offset for this long leaves the "
        "ISR.",
    )
    socket_timeout_ms: int = integer(
        "replica.socket.timeout.ms",
        default=30_000,
        importance=Importance.HIGH,
        doc="The timeout of fetch requests to a leader.",
    )
    replica_selector_class: str | None = text(
        "replica.selector.class",
        default=None,
        check=selector_rule,
        importance=Importance.MEDIUM,
        doc="The class that selects the replica for consumers: "
        f"`{RACK_AWARE_SELECTOR}` prefers one in their `client.rack`; the default is the leader.",
    )
    quota_windows: int = integer(
        "replication.quota.window.num",
        default=11,
        at_least=1,
        importance=Importance.LOW,
        doc="The number of windows over which the rate of throttled replicas is measured.",
    )
    quota_window_s: int = integer(
        "replication.quota.window.size.seconds",
        default=1,
        at_least=1,
        importance=Importance.LOW,
        doc="The length of a window for the rate of throttled replicas.",
    )
    alter_log_dirs_quota_windows: int = integer(
        "alter.log.dirs.replication.quota.window.num",
        default=11,
        at_least=1,
        importance=Importance.LOW,
        doc="The number of windows over which the rate of copies between log directories is "
        "measured.",
    )
    alter_log_dirs_quota_window_s: int = integer(
        "alter.log.dirs.replication.quota.window.size.seconds",
        default=1,
        at_least=1,
        importance=Importance.LOW,
        doc="The length of a window for the rate of copies between log directories.",
    )

    @property
    def is_rack_aware(self) -> bool:
        return self.replica_selector_class == RACK_AWARE_SELECTOR


class ReplicationQuotas(Settings, update=UpdateMode.CLUSTER):
    """Replication quotas: see broker/replicas/replication_quota_manager.py.

    As in Kafka, they can be set only dynamically and not in the file.
    """

    leader_rate: int = long(
        "leader.replication.throttled.rate",
        default=2**63 - 1,
        at_least=0,
        doc="The number of bytes per second that a leader sends to throttled replicas.",
    )
    follower_rate: int = long(
        "follower.replication.throttled.rate",
        default=2**63 - 1,
        at_least=0,
        doc="The number of bytes per second that throttled replicas fetch.",
    )
    alter_log_dirs_rate: int = long(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        default=2**63 - 1,
        at_least=0,
        doc="The number of bytes per second that are copied between log directories.",
    )
