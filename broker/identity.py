"""Who is this broker?  Its id and its cluster's, agreed on by settings, store and directories.

    cluster id   the store's; if it has none yet, that of the directories, else a new one
    broker id    ``broker.id``; else that of the directories, else one that nobody had before

What the directories say must not contradict: DirectoryRefused.

Owner: the event loop.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable

from odradek.broker.network.endpoint import Endpoint
from odradek.broker.settings.server_settings import ServerSettings
from odradek.controller import registration
from odradek.controller.feature_updates import SUPPORTED_FEATURES
from odradek.controller.store.base import MetadataStore
from odradek.controller.store.payloads import broker as registered
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.meta_properties import MetaProperties


async def resolve_cluster_id(store: MetadataStore, directories: LogDirectories) -> str:
    directories.verify_meta_properties(broker_id=None, cluster_id=None)
    cluster_id = await registration.create_or_get_cluster_id(
        store, _stored_meta_properties(directories).cluster_id or _new_cluster_id()
    )
    directories.verify_meta_properties(broker_id=None, cluster_id=cluster_id)
    return cluster_id


async def resolve_broker_id(
    store: MetadataStore, directories: LogDirectories, settings: ServerSettings
) -> int:
    configured = settings.broker.id
    if configured >= 0:
        directories.verify_meta_properties(broker_id=configured, cluster_id=None)
        return configured
    stored = _stored_meta_properties(directories).broker_id
    if stored is not None:
        return stored
    max_reserved_id = settings.controller.reserved_broker_max_id
    return await registration.generate_broker_id(store, reserved_broker_max_id=max_reserved_id)


def build_registration(
    settings: ServerSettings, advertised_endpoints: Iterable[Endpoint], *, timestamp_ms: int
) -> registered.BrokerRegistration:
    """What the others are told of it."""
    return registered.BrokerRegistration(
        endpoints=tuple(
            registered.Endpoint(
                each.listener,
                each.host,
                each.port,
                registered.SecurityProtocol[each.security_protocol],
            )
            for each in advertised_endpoints
        ),
        rack=settings.broker.rack,
        features={
            # Before 3.9 brokers cannot read of a lowest version of 0, which means the same.
            name: registered.SupportedVersionRange(max(1, versions.low), versions.high)
            for name, versions in SUPPORTED_FEATURES.items()
        },
        timestamp_ms=timestamp_ms,
    )


def _stored_meta_properties(directories: LogDirectories) -> MetaProperties:
    """All of them agree, as far as they say anything."""
    stored = [
        each.meta_properties for each in directories.online if each.meta_properties is not None
    ]
    return MetaProperties(
        broker_id=next((meta.broker_id for meta in stored if meta.broker_id is not None), None),
        cluster_id=next((meta.cluster_id for meta in stored if meta.cluster_id is not None), None),
    )


def _new_cluster_id() -> str:
    """22 characters, as Kafka makes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
