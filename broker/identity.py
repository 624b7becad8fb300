"""Determines the broker id and the cluster id from settings, metadata store and log directories.

    cluster id   from the store; if it has none yet, from the log directories, else a new one
    broker id    ``broker.id``; else from the log directories, else a newly generated one

If meta.properties of a log directory contradicts these ids, InvalidLogDirectory is raised.

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
    """Build the content of this broker's znode in /brokers/ids."""
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
            # Kafka before 3.9 cannot read a minimum version of 0, which has the same meaning as 1.
            name: registered.SupportedVersionRange(max(1, versions.low), versions.high)
            for name, versions in SUPPORTED_FEATURES.items()
        },
        timestamp_ms=timestamp_ms,
    )


def _stored_meta_properties(directories: LogDirectories) -> MetaProperties:
    """Merge meta.properties of all directories, which were checked to agree."""
    stored = [
        each.meta_properties for each in directories.online if each.meta_properties is not None
    ]
    return MetaProperties(
        broker_id=next((meta.broker_id for meta in stored if meta.broker_id is not None), None),
        cluster_id=next((meta.cluster_id for meta in stored if meta.cluster_id is not None), None),
    )


def _new_cluster_id() -> str:
    """A random UUID in 22 base64 characters, as in Kafka."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
