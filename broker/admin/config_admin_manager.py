"""Alters the configs of topics, groups, this broker, all brokers and loggers.

A change is validated against the current settings and written to the metadata store.  It takes
effect when the store has notified every broker.  Only logger levels change immediately.

As in Kafka, an invalid value for a broker gives INVALID_REQUEST, and one for a topic or a group
gives INVALID_CONFIG.  Tools rely on this difference.

New passwords are rejected, as Kafka does without ``password.encoder.secret``: other clients may
read the store, and a Kafka broker that replaces this one could not decrypt the value.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.broker.admin.config_resources import ResourceType, check_is_this_broker
from odradek.broker.admin.logger_levels import alter_levels
from odradek.broker.settings.consumer_groups import OneGroupSettings
from odradek.broker.settings.dynamic_config_rules import filter_valid_configs, is_password
from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.broker.settings.server_settings import SETTINGS_BY_NAME
from odradek.config.definition import ConfigSource, SettingError
from odradek.config.settings import unknown_names
from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.config_alterations import (
    AlterableConfig,
    Config,
    IncrementalAlterableConfig,
    prepare_full_config,
    prepare_incremental_config,
)
from odradek.controller.store import paths
from odradek.protocol.errors import InvalidConfig, InvalidRequest


class ConfigAdminManager:
    """Alters configs on behalf of clients."""

    def __init__(
        self, config_admin: ConfigAdmin, settings: DynamicSettings, *, broker_id: int
    ) -> None:
        self._config_admin = config_admin
        self._settings = settings
        self._broker_id = broker_id

    async def incremental_alter_configs(
        self,
        resource_type: ResourceType,
        name: str,
        changes: Sequence[IncrementalAlterableConfig],
        *,
        validate_only: bool,
    ) -> None:
        """Alter only the given settings; raises a KafkaError."""
        match resource_type:
            case ResourceType.TOPIC:
                await self._config_admin.incremental_alter_topic_config(
                    name, changes, validate_only=validate_only
                )
            case ResourceType.BROKER:

                def change(config: Config) -> Config:
                    return prepare_incremental_config(config, changes, SETTINGS_BY_NAME)

                await self._alter_broker(name, change, validate_only=validate_only)
            case ResourceType.GROUP:

                def change_group(config: Config) -> Config:
                    return prepare_incremental_config(config, changes, OneGroupSettings.by_name)

                await self._alter_group(name, change_group, validate_only=validate_only)
            case ResourceType.BROKER_LOGGER:
                check_is_this_broker(name, self._broker_id)
                alter_levels(changes, validate_only=validate_only)
            case _:
                raise _unsupported_resource_type(resource_type)

    async def alter_configs(
        self,
        resource_type: ResourceType,
        name: str,
        configs: Sequence[AlterableConfig],
        *,
        validate_only: bool,
    ) -> None:
        """Replace the whole config of the resource; raises a KafkaError."""
        match resource_type:
            case ResourceType.TOPIC:
                await self._config_admin.alter_topic_config(
                    name, configs, validate_only=validate_only
                )
            case ResourceType.BROKER:
                await self._alter_broker(
                    name, lambda _: prepare_full_config(configs), validate_only=validate_only
                )
            case ResourceType.GROUP:
                await self._alter_group(
                    name, lambda _: prepare_full_config(configs), validate_only=validate_only
                )
            case _:
                raise _unsupported_resource_type(resource_type)

    async def _alter_broker(
        self, name: str, change: Callable[[Config], Config], *, validate_only: bool
    ) -> None:
        if name:
            check_is_this_broker(name, self._broker_id)
        entity = paths.broker_config(self._broker_id if name else None)
        layer = ConfigSource.BROKER if name else ConfigSource.CLUSTER

        def decide(config: Config) -> Config:
            new_config = change(filter_valid_configs(config, layer, entity_name=str(entity)))
            try:
                self._settings.check(layer, new_config)
            except SettingError as error:
                raise InvalidRequest(str(error)) from error
            if not validate_only:
                _check_no_new_passwords(config, new_config)
            return new_config

        await self._config_admin.update_entity_config(entity, decide, validate_only=validate_only)

    async def _alter_group(
        self, name: str, change: Callable[[Config], Config], *, validate_only: bool
    ) -> None:
        """Alter the config of a group, which need not exist yet."""
        if not name:
            raise InvalidRequest("There is no default group config: name a group.")

        def decide(config: Config) -> Config:
            new_config = change(config)
            unknown = unknown_names(new_config, [OneGroupSettings])
            if unknown:
                raise InvalidConfig(f"Unknown group config name: {', '.join(unknown)}.")
            current = self._settings.current
            try:
                current.group(new_config).check_within(current.consumer_groups)
            except SettingError as error:
                raise InvalidConfig(str(error)) from error
            return new_config

        await self._config_admin.update_entity_config(
            paths.group_config(name), decide, validate_only=validate_only
        )


def _check_no_new_passwords(before: Config, after: Config) -> None:
    """Reject new or changed passwords; a password that a Kafka broker has stored stays valid."""
    for name in after:
        if is_password(name) and after[name] != before.get(name):
            raise InvalidConfig(f"{name}: passwords cannot be encrypted here and are not stored.")


def _unsupported_resource_type(resource_type: ResourceType) -> InvalidRequest:
    return InvalidRequest(f"Configs of resource type {resource_type.name} cannot be altered.")
