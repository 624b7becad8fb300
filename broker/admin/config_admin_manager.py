"""What shall be set: of a topic, a group, this broker, all brokers or a logger.

What is asked for is checked against the settings in force, and written to the store; it is in force
when the store has told every broker.  Only levels of loggers are changed on the spot.

Kafka answers a broker's bad value with INVALID_REQUEST, a topic's and a group's with
INVALID_CONFIG, and tools have come to rely on it.

Passwords are refused, as Kafka refuses them where it has no secret to encrypt them with: what is in
the store may be read by others, and would be of no use to a broker of Kafka that comes after us.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.broker.admin.logger_levels import change_levels
from odradek.broker.admin.resources import ResourceType, check_is_this_broker
from odradek.broker.settings.consumer_groups import OneGroupSettings
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.server_settings import BY_NAME
from odradek.broker.settings.updates import is_password, usable
from odradek.config.definition import Layer, SettingError
from odradek.config.settings import unknown_names
from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.config_alterations import (
    Config,
    ConfigChange,
    ConfigText,
    altered,
    replaced,
)
from odradek.controller.store import paths
from odradek.protocol.errors import InvalidConfig, InvalidRequest


class BrokerConfigAdmin:
    """Changes configurations on behalf of clients."""

    def __init__(self, tree: ConfigAdmin, settings: DynamicSettings, *, broker_id: int) -> None:
        self._tree = tree
        self._settings = settings
        self._broker_id = broker_id

    async def alter(
        self, kind: ResourceType, name: str, changes: Sequence[ConfigChange], *, validate_only: bool
    ) -> None:
        """Only these settings; raises a KafkaError."""
        match kind:
            case ResourceType.TOPIC:
                await self._tree.alter_topic(name, changes, validate_only=validate_only)
            case ResourceType.BROKER:

                def change(config: Config) -> Config:
                    return altered(config, changes, BY_NAME)

                await self._alter_broker(name, change, validate_only=validate_only)
            case ResourceType.GROUP:

                def change_group(config: Config) -> Config:
                    return altered(config, changes, OneGroupSettings.by_name)

                await self._alter_group(name, change_group, validate_only=validate_only)
            case ResourceType.BROKER_LOGGER:
                check_is_this_broker(name, self._broker_id)
                change_levels(changes, validate_only=validate_only)
            case _:
                raise _not_kept(kind)

    async def replace(
        self, kind: ResourceType, name: str, texts: Sequence[ConfigText], *, validate_only: bool
    ) -> None:
        """Everything that was configured; raises a KafkaError."""
        match kind:
            case ResourceType.TOPIC:
                await self._tree.replace_topic(name, texts, validate_only=validate_only)
            case ResourceType.BROKER:
                await self._alter_broker(
                    name, lambda _: replaced(texts), validate_only=validate_only
                )
            case ResourceType.GROUP:
                await self._alter_group(
                    name, lambda _: replaced(texts), validate_only=validate_only
                )
            case _:
                raise _not_kept(kind)

    async def _alter_broker(
        self, name: str, change: Callable[[Config], Config], *, validate_only: bool
    ) -> None:
        if name:
            check_is_this_broker(name, self._broker_id)
        entity = paths.broker_config(self._broker_id if name else None)
        layer = Layer.BROKER if name else Layer.CLUSTER

        def decide(config: Config) -> Config:
            after = change(usable(config, layer, whose=str(entity)))
            try:
                self._settings.check(layer, after)
            except SettingError as broken:
                raise InvalidRequest(str(broken)) from broken
            if not validate_only:
                _check_without_passwords(config, after)
            return after

        await self._tree.alter(entity, decide, validate_only=validate_only)

    async def _alter_group(
        self, name: str, change: Callable[[Config], Config], *, validate_only: bool
    ) -> None:
        """There need be no such group yet."""
        if not name:
            raise InvalidRequest("Groups have no configuration in common: name one.")

        def decide(config: Config) -> Config:
            after = change(config)
            unknown = unknown_names(after, [OneGroupSettings])
            if unknown:
                raise InvalidConfig(f"Groups have no such setting: {', '.join(unknown)}.")
            current = self._settings.current
            try:
                current.group(after).check_within(current.consumer_groups)
            except SettingError as broken:
                raise InvalidConfig(str(broken)) from broken
            return after

        await self._tree.alter(paths.group_config(name), decide, validate_only=validate_only)


def _check_without_passwords(before: Config, after: Config) -> None:
    """Those that a broker of Kafka has written stay as they are."""
    for name in after:
        if is_password(name) and after[name] != before.get(name):
            raise InvalidConfig(f"{name}: passwords are not encrypted here, and so not stored.")


def _not_kept(kind: ResourceType) -> InvalidRequest:
    return InvalidRequest(f"Configurations of {kind.name} cannot be changed here.")
