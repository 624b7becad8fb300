"""Computes a configuration from the changes to single settings (KIP-339).

    SET        set the value
    DELETE     remove the setting, so that its default applies
    APPEND     add elements to a list, except those already in it
    SUBTRACT   remove elements from a list

A list that is not configured starts from its default.  Elements are compared as text.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from odradek.config.definition import ConfigSource, Setting, SettingError
from odradek.config.settings import Settings, unknown_names
from odradek.config.types import ConfigType
from odradek.controller.store.payloads.config import EntityConfig
from odradek.protocol.api.alter_configs import AlterConfigsRequest
from odradek.protocol.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.errors import InvalidConfig, InvalidRequest
from odradek.storage.settings import TopicSettings

IncrementalAlterableConfig = IncrementalAlterConfigsRequest.Resource.Config
AlterableConfig = AlterConfigsRequest.Resource.Config
Config = Mapping[str, str]

#: The maximum size of one write.  ZooKeeper closes the connection above 1 MiB (jute.maxbuffer).
ZNODE_BYTES_MAX = 1_000_000


class AlterConfigOp(Enum):
    """The codes are those of the protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def prepare_incremental_config(
    config: Config, changes: Sequence[IncrementalAlterableConfig], settings: Mapping[str, Setting]
) -> dict[str, str]:
    """``settings`` are the configurable settings, by name."""
    operations = _parse_operations(changes)
    new_config = dict(config)
    for change, operation in zip(changes, operations, strict=True):
        if operation is AlterConfigOp.DELETE:
            new_config.pop(change.name, None)
            continue
        assert change.value is not None, change
        if operation is AlterConfigOp.SET:
            new_config[change.name] = change.value
        else:
            current = _current_list(change.name, new_config, settings)
            new_config[change.name] = ",".join(
                _apply_list_operation(current, operation, change.value)
            )
    return new_config


def prepare_full_config(configs: Sequence[AlterableConfig]) -> dict[str, str]:
    """AlterConfigs replaces the whole configuration."""
    _check_no_duplicates(config.name for config in configs)
    _check_no_missing_values(config.name for config in configs if config.value is None)
    return {config.name: config.value for config in configs if config.value is not None}


def validate_topic_config(config: Config, *, server_settings: Sequence[Settings]) -> TopicSettings:
    """Return the topic's settings with the server's defaults; raises InvalidConfig."""
    unknown = unknown_names(config, [TopicSettings])
    if unknown:
        raise InvalidConfig(f"Unknown topic config name: {', '.join(unknown)}.")
    try:
        return TopicSettings.read({ConfigSource.TOPIC: config}, server_tables=server_settings)
    except SettingError as error:
        raise InvalidConfig(str(error)) from error


def encode_config(config: EntityConfig, *, bytes_max: int = ZNODE_BYTES_MAX) -> bytes:
    encoded = config.encode()
    if len(encoded) > bytes_max:
        raise InvalidConfig(f"The configuration exceeds the maximum size of {bytes_max} bytes.")
    return encoded


def _parse_operations(changes: Sequence[IncrementalAlterableConfig]) -> list[AlterConfigOp]:
    _check_no_duplicates(change.name for change in changes)
    operations = []
    for change in changes:
        try:
            operations.append(AlterConfigOp(change.config_operation))
        except ValueError as error:
            raise InvalidRequest(
                f"{change.name}: unknown config operation {change.config_operation}; must be "
                "0 (SET), 1 (DELETE), 2 (APPEND) or 3 (SUBTRACT)."
            ) from error
    _check_no_missing_values(
        change.name
        for change, operation in zip(changes, operations, strict=True)
        if operation is not AlterConfigOp.DELETE and change.value is None
    )
    return operations


def _check_no_duplicates(names: Iterable[str]) -> None:
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise InvalidRequest(f"Error due to duplicate config keys: {', '.join(duplicates)}.")


def _check_no_missing_values(missing: Iterable[str]) -> None:
    names = list(missing)
    if names:
        raise InvalidRequest(f"Null value not supported for: {', '.join(names)}.")


def _current_list(name: str, config: Config, settings: Mapping[str, Setting]) -> list[str]:
    setting = settings.get(name)
    if setting is None:
        raise InvalidConfig(f"Unknown config name: {name}.")
    if setting.type is not ConfigType.LIST:
        raise InvalidConfig(
            f"Config value append or subtract is not allowed for config key: {name}. "
            "It is not a list."
        )
    if name in config:
        return _split_list(config[name])
    return list(setting.literal_default or ())


def _apply_list_operation(current: list[str], operation: AlterConfigOp, text: str) -> list[str]:
    elements = _split_list(text)
    if operation is AlterConfigOp.APPEND:
        return current + [element for element in elements if element not in current]
    remaining = list(current)
    for element in elements:
        if element in remaining:
            remaining.remove(element)
    return remaining


def _split_list(text: str) -> list[str]:
    """Trailing empty elements are dropped."""
    elements = text.split(",")
    while elements and not elements[-1]:
        elements.pop()
    return elements
