"""What may be changed while the broker runs, and how far at once?

    read-only      only by a restart
    per-broker     for a broker by itself
    cluster-wide   for a broker by itself, or for all that have nothing of their own

A name that no table declares is kept without effect, as in Kafka, which cannot know what plug-ins
there are; but Kafka's own rules hold for the names that are Kafka's.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odradek.broker.settings import kafka_names
from odradek.broker.settings.replication import ReplicationQuotas
from odradek.broker.settings.server_settings import BY_NAME, ServerSettings
from odradek.config.definition import Layer, Setting, SettingError, Update

log = logging.getLogger(__name__)

#: Before the settings of one listener: ``listener.name.internal.max.connections``.
LISTENER_PREFIX = "listener.name."

#: Threads that may be doubled or halved at once, not more: a slip of the finger would be costly.
THREAD_COUNTS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)

#: Of Kafka's settings that can be changed for single brokers only.
_PER_BROKER = frozenset(
    {
        "advertised.listeners",
        "listener.security.protocol.map",
        "listeners",
        "principal.builder.class",
    }
)
_PER_BROKER_PREFIXES = ("sasl.", "ssl.")
#: Of a listener's settings, those that can be changed for all brokers at once.
_OF_ALL_LISTENERS = frozenset(
    {"max.connection.creation.rate", "max.connections", "num.network.threads"}
)
#: These can be changed for single listeners only.
_OF_A_LISTENER_PREFIXES = ("ssl.key.", "ssl.keystore.", "ssl.truststore.")


#: What is known of a setting that can be changed dynamically, and what only can be.
TYPED: Mapping[str, Setting] = {**BY_NAME, **ReplicationQuotas.by_name}


def check_update(name: str, text: str, layer: Layer) -> None:
    """``layer`` is that of the broker or of all brokers.  Raises SettingError."""
    listener, base = split_listener(name)
    if not listener:
        _check_unprefixed(name)
    if base in TYPED:
        TYPED[base].parse(text)
    if layer is Layer.CLUSTER and _is_per_broker(base, listener=listener):
        raise SettingError(name, None, "can be changed for each broker by itself only")


def _check_unprefixed(name: str) -> None:
    declared = BY_NAME.get(name)
    if name in kafka_names.READ_ONLY or (declared and declared.update is Update.READ_ONLY):
        raise SettingError(name, None, "cannot be changed while the broker runs")
    if name.startswith(_OF_A_LISTENER_PREFIXES):
        rule = f"can be changed for a listener only, as {LISTENER_PREFIX}NAME.{name}"
        raise SettingError(name, None, rule)


def _is_per_broker(base: str, *, listener: str) -> bool:
    if listener:
        return base not in _OF_ALL_LISTENERS
    return base in _PER_BROKER or base.startswith(_PER_BROKER_PREFIXES)


def split_listener(name: str) -> tuple[str, str]:
    """The listener that a setting is for, empty if it is for all; and its name without it."""
    if not name.startswith(LISTENER_PREFIX):
        return "", name
    listener, _, base = name.removeprefix(LISTENER_PREFIX).partition(".")
    return listener, base


def is_password(name: str) -> bool:
    """Whether Kafka encrypts it before it is stored.  (Mechanisms of a listener have their own.)"""
    listener, base = split_listener(name)
    is_of_a_mechanism = bool(listener) and base.endswith(".sasl.jaas.config")
    return base in kafka_names.PASSWORDS or is_of_a_mechanism


def usable(config: Mapping[str, str], layer: Layer, *, whose: str) -> dict[str, str]:
    """What of a stored configuration can be in force; what cannot is logged."""
    kept = {}
    for name, text in config.items():
        try:
            check_update(name, text, layer)
        except SettingError as broken:
            log.error("The configuration of %s is ignored in part: %s", whose, broken)
        else:
            kept[name] = text
    return kept


def check_thread_counts(before: ServerSettings, after: ServerSettings) -> None:
    """Raises SettingError if one grows or shrinks too much at once."""
    for name in THREAD_COUNTS:
        was, will_be = _count(before, name), _count(after, name)
        lowest, highest = max(was // 2, 1), was * 2
        if will_be != was and not lowest <= will_be <= highest:
            rule = f"must be between {lowest} and {highest}, half and twice what it is now"
            raise SettingError(name, str(will_be), rule)


def _count(settings: ServerSettings, name: str) -> int:
    table = next(table for table in settings.tables if name in table.by_name)
    count: int = getattr(table, table.attributes[name])
    return count
