"""Settings of groups of the consumer protocol (KIP-848): for all groups, and for single groups.

Names, ranges and defaults are Kafka's: those of 4.1 where 3.9 disables the protocol.
"""

from __future__ import annotations

from odradek.config.definition import SettingError, UpdateMode, choice, integer, text_list
from odradek.config.settings import Settings

#: Whether groups may change the protocol while they have members.
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
CONSUMER = "consumer"
#: Kafka's class names for `uniform` and `range`.
_ASSIGNOR_CLASSES = (
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
)


class ConsumerGroupSettings(Settings):
    """Settings for all groups of the consumer protocol (KIP-848)."""

    rebalance_protocols: tuple[str, ...] = text_list(
        "group.coordinator.rebalance.protocols",
        default=("classic", CONSUMER),
        one_of=("classic", CONSUMER, "share", "streams", "unknown"),
        doc="The enabled group protocols: without `consumer`, ConsumerGroupHeartbeat is rejected; "
        "`classic` is always enabled.",
    )
    migration_policy: str = choice(
        "group.consumer.migration.policy",
        MIGRATION_POLICIES,
        default="bidirectional",
        doc="Whether a classic group is upgraded when a member of the consumer protocol joins, and "
        "downgraded when the last such member leaves and classic members remain.",
    )
    assignors: tuple[str, ...] = text_list(
        "group.consumer.assignors",
        default=_ASSIGNOR_CLASSES,
        one_of=("uniform", "range", *_ASSIGNOR_CLASSES),
        doc="The assignors that members may request; the first is the default.",
    )
    max_size: int = integer(
        "group.consumer.max.size",
        default=2**31 - 1,
        at_least=1,
        doc="The maximum number of members of a group.",
    )
    session_timeout_ms: int = integer(
        "group.consumer.session.timeout.ms",
        default=45_000,
        at_least=1,
        doc="The time without a heartbeat after which a member is removed.",
    )
    min_session_timeout_ms: int = integer(
        "group.consumer.min.session.timeout.ms",
        default=45_000,
        at_least=1,
        doc="The minimum for `group.consumer.session.timeout.ms`.",
    )
    max_session_timeout_ms: int = integer(
        "group.consumer.max.session.timeout.ms",
        default=60_000,
        at_least=1,
        doc="The maximum for `group.consumer.session.timeout.ms`.",
    )
    heartbeat_interval_ms: int = integer(
        "group.consumer.heartbeat.interval.ms",
        default=5_000,
        at_least=1,
        doc="The heartbeat interval that members receive.",
    )
    min_heartbeat_interval_ms: int = integer(
        "group.consumer.min.heartbeat.interval.ms",
        default=5_000,
        at_least=1,
        doc="The minimum for `group.consumer.heartbeat.interval.ms`.",
    )
    max_heartbeat_interval_ms: int = integer(
        "group.consumer.max.heartbeat.interval.ms",
        default=15_000,
        at_least=1,
        doc="The maximum for `group.consumer.heartbeat.interval.ms`.",
    )

    @property
    def is_enabled(self) -> bool:
        return CONSUMER in self.rebalance_protocols

    @property
    def may_upgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "downgrade")

    def check(self) -> None:
        check_bounds(self, self, prefix="group.consumer.")


class OneGroupSettings(Settings, update=UpdateMode.GROUP):
    """Settings of a single group of the consumer protocol, which override the broker's."""

    session_timeout_ms: int = integer(
        "consumer.session.timeout.ms",
        default=45_000,
        at_least=1,
        synonym="group.consumer.session.timeout.ms",
        doc="The time without a heartbeat after which a member is removed.",
    )
    heartbeat_interval_ms: int = integer(
        "consumer.heartbeat.interval.ms",
        default=5_000,
        at_least=1,
        synonym="group.consumer.heartbeat.interval.ms",
        doc="The heartbeat interval that members receive.",
    )

    def check_within(self, server: ConsumerGroupSettings) -> None:
        """Check new values only: stored values stay valid if the broker's bounds change."""
        check_bounds(self, server, prefix="consumer.")


def check_bounds(
    settings: ConsumerGroupSettings | OneGroupSettings,
    server: ConsumerGroupSettings,
    *,
    prefix: str,
) -> None:
    """Raises SettingError.  ``prefix`` precedes the setting names of ``settings``."""
    for name in ("session.timeout.ms", "heartbeat.interval.ms"):
        attribute = name.replace(".", "_")
        value = getattr(settings, attribute)
        least, most = (getattr(server, bound + attribute) for bound in ("min_", "max_"))
        if not least <= value <= most:
            rule = f"must be between group.consumer.min.{name} and group.consumer.max.{name}"
            raise SettingError(prefix + name, str(value), rule)
    if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        raise SettingError(
            f"{prefix}heartbeat.interval.ms",
            str(settings.heartbeat_interval_ms),
            f"must be less than {prefix}session.timeout.ms",
        )
