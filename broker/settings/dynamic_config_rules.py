"""Rules for changing settings at run time.  Kafka: DynamicBrokerConfig.

    read-only      requires a restart
    per-broker     can be set for a single broker
    cluster-wide   can be set for a single broker, or as the default of all brokers

A name that no table declares is stored without effect, as in Kafka, because it may belong to a
plugin.  Kafka's names follow Kafka's rules even if no table declares them.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odradek.broker.settings import kafka_config_names
from odradek.broker.settings.replication import ReplicationQuotas
from odradek.broker.settings.server_settings import SETTINGS_BY_NAME, ServerSettings
from odradek.config.definition import ConfigSource, Setting, SettingError, UpdateMode

log = logging.getLogger("kafka.server")

#: The prefix of settings for one listener: ``listener.name.internal.max.connections``.
LISTENER_PREFIX = "listener.name."

#: Thread counts may be at most doubled or halved in one change, as a protection against typos.
THREAD_COUNTS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)

#: Kafka's settings that can be changed for single brokers only.
_PER_BROKER = frozenset(
    {
        "advertised.listeners",
        "listener.security.protocol.map",
        "listeners",
        "principal.builder.class",
    }
)
_PER_BROKER_PREFIXES = ("sasl.", "ssl.")
#: The settings of a listener that can be changed for all brokers at once.
_CLUSTER_WIDE_LISTENER_CONFIGS = frozenset(
    {"max.connection.creation.rate", "max.connections", "num.network.threads"}
)
#: Settings that can be changed for single listeners only.
_LISTENER_ONLY_PREFIXES = ("ssl.key.", "ssl.keystore.", "ssl.truststore.")


#: All declared settings, including those that can only be set dynamically.
ALL_SETTINGS: Mapping[str, Setting] = {**SETTINGS_BY_NAME, **ReplicationQuotas.by_name}


def check_update(name: str, text: str, source: ConfigSource) -> None:
    """``source`` is that of the broker or of all brokers.  Raises SettingError."""
    listener, base = split_listener(name)
    if not listener:
        _check_unprefixed(name)
    check_supported(name, text)
    if base in ALL_SETTINGS:
        ALL_SETTINGS[base].parse(text)
    if source is ConfigSource.CLUSTER and _is_per_broker(base, listener=listener):
        raise SettingError(name, None, "can only be changed per broker")


def check_supported(name: str, text: str) -> None:
    """Raises SettingError for a plugin that this broker cannot run and must not ignore."""
    _, base = split_listener(name)
    allowed = kafka_config_names.PLUGINS.get(base)
    if allowed is not None and text not in ("", allowed):
        rule = "is not supported and would not be enforced; remove the setting"
        raise SettingError(name, text, rule)


def _check_unprefixed(name: str) -> None:
    declared = SETTINGS_BY_NAME.get(name)
    if name in kafka_config_names.READ_ONLY or (
        declared and declared.update is UpdateMode.READ_ONLY
    ):
        raise SettingError(name, None, "cannot be changed while the broker runs")
    if name.startswith(_LISTENER_ONLY_PREFIXES):
        rule = f"can only be changed for a listener, as {LISTENER_PREFIX}NAME.{name}"
        raise SettingError(name, None, rule)


def _is_per_broker(base: str, *, listener: str) -> bool:
    if listener:
        return base not in _CLUSTER_WIDE_LISTENER_CONFIGS
    return base in _PER_BROKER or base.startswith(_PER_BROKER_PREFIXES)


def split_listener(name: str) -> tuple[str, str]:
    """Split a name into listener (empty if it is for all listeners) and name without prefix."""
    if not name.startswith(LISTENER_PREFIX):
        return "", name
    listener, _, base = name.removeprefix(LISTENER_PREFIX).partition(".")
    return listener, base


def is_password(name: str) -> bool:
    """Whether Kafka encrypts the value in the store, including each listener's SASL mechanisms."""
    listener, base = split_listener(name)
    is_mechanism_config = bool(listener) and base.endswith(".sasl.jaas.config")
    return base in kafka_config_names.PASSWORDS or is_mechanism_config


def filter_valid_configs(
    config: Mapping[str, str], source: ConfigSource, *, entity_name: str
) -> dict[str, str]:
    """Return the valid part of a stored configuration; the rest is logged."""
    valid = {}
    for name, text in config.items():
        try:
            check_update(name, text, source)
        except SettingError as error:
            log.error("Ignoring invalid setting of %s: %s", entity_name, error)
        else:
            valid[name] = text
    return valid


def check_thread_counts(before: ServerSettings, after: ServerSettings) -> None:
    """Raises SettingError if a thread count changes too much at once."""
    for name in THREAD_COUNTS:
        old, new = _count(before, name), _count(after, name)
        lowest, highest = max(old // 2, 1), old * 2
        if new != old and not lowest <= new <= highest:
            rule = f"must be between {lowest} and {highest}, half and twice the current value"
            raise SettingError(name, str(new), rule)


def _count(settings: ServerSettings, name: str) -> int:
    table = next(table for table in settings.tables if name in table.by_name)
    count: int = getattr(table, table.attributes[name])
    return count
