"""What a configuration becomes when single settings of it are changed (KIP-339).

    SET        the setting is this
    DELETE     it goes back to its default
    APPEND     these are added to its list, unless they are in it
    SUBTRACT   these are taken out of its list

A list that was not configured begins with its default.  Elements are compared as they are written.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from odradek.config.definition import Layer, Setting, SettingError
from odradek.config.kinds import Kind
from odradek.config.settings import Settings, unknown_names
from odradek.controller.store.payloads.config import EntityConfig
from odradek.protocol.api.alter_configs import AlterConfigsRequest
from odradek.protocol.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.errors import InvalidConfig, InvalidRequest
from odradek.storage.settings import TopicSettings

ConfigChange = IncrementalAlterConfigsRequest.Resource.Config
ConfigText = AlterConfigsRequest.Resource.Config
Config = Mapping[str, str]

#: Of what a request writes into the tree.  ZooKeeper hangs up on one above 1 MiB (jute.maxbuffer).
NODE_BYTES_MAX = 1_000_000


class Operation(Enum):
    """The numbers are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def altered(
    config: Config, changes: Sequence[ConfigChange], settings: Mapping[str, Setting]
) -> dict[str, str]:
    """``settings`` are those that can be configured, by name."""
    operations = _operations(changes)
    after = dict(config)
    for change, operation in zip(changes, operations, strict=True):
        if operation is Operation.DELETE:
            after.pop(change.name, None)
            continue
        assert change.value is not None, change
        if operation is Operation.SET:
            after[change.name] = change.value
        else:
            listed = _listed(change.name, after, settings)
            after[change.name] = ",".join(_changed_list(listed, operation, change.value))
    return after


def replaced(texts: Sequence[ConfigText]) -> dict[str, str]:
    """All that is configured from now on, as AlterConfigs says it."""
    _check_names_differ(text.name for text in texts)
    _check_all_given(text.name for text in texts if text.value is None)
    return {text.name: text.value for text in texts if text.value is not None}


def checked_topic_config(config: Config, *, server: Sequence[Settings]) -> TopicSettings:
    """The topic's settings on the server's tables; raises InvalidConfig."""
    unknown = unknown_names(config, [TopicSettings])
    if unknown:
        raise InvalidConfig(f"Topics have no such setting: {', '.join(unknown)}.")
    try:
        return TopicSettings.read({Layer.TOPIC: config}, server=server)
    except SettingError as broken:
        raise InvalidConfig(str(broken)) from broken


def encoded_config(config: EntityConfig, *, bytes_max: int = NODE_BYTES_MAX) -> bytes:
    node = config.encode()
    if len(node) > bytes_max:
        raise InvalidConfig(f"The configuration is longer than {bytes_max} bytes.")
    return node


def _operations(changes: Sequence[ConfigChange]) -> list[Operation]:
    _check_names_differ(change.name for change in changes)
    operations = []
    for change in changes:
        try:
            operations.append(Operation(change.config_operation))
        except ValueError as unknown:
            raise InvalidRequest(
                f"{change.name}: there is no operation {change.config_operation}."
            ) from unknown
    _check_all_given(
        change.name
        for change, operation in zip(changes, operations, strict=True)
        if operation is not Operation.DELETE and change.value is None
    )
    return operations


def _check_names_differ(names: Iterable[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidRequest(f"Given more than once: {', '.join(repeated)}.")


def _check_all_given(missing: Iterable[str]) -> None:
    names = list(missing)
    if names:
        raise InvalidRequest(f"There must be a value of {', '.join(names)}.")


def _listed(name: str, config: Config, settings: Mapping[str, Setting]) -> list[str]:
    setting = settings.get(name)
    if setting is None:
        raise InvalidConfig(f"There is no such setting: {name}.")
    if setting.kind is not Kind.LIST:
        raise InvalidConfig(f"{name} is no list, so nothing is added to it or taken out of it.")
    if name in config:
        return _elements(config[name])
    return list(setting.plain_default or ())


def _changed_list(listed: list[str], operation: Operation, text: str) -> list[str]:
    elements = _elements(text)
    if operation is Operation.APPEND:
        return listed + [element for element in elements if element not in listed]
    left = list(listed)
    for element in elements:
        if element in left:
            left.remove(element)
    return left


def _elements(text: str) -> list[str]:
    """Without empty ones at the end."""
    elements = text.split(",")
    while elements and not elements[-1]:
        elements.pop()
    return elements
