"""Opens the metadata store: ZooKeeper, or a local file if this broker runs without a cluster.

The file is in a log directory, beside the logs that it describes.  It is created in the first
directory and stays there even if another directory is later put in front.  It is created only once:
if the directories already belong to a cluster and the file is missing, the start fails, because all
topics would be lost without it.

Owner: the event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from odradek.broker.disk_executor import DiskExecutor
from odradek.broker.settings.server_settings import ServerSettings
from odradek.controller.store.base import MetadataStore
from odradek.controller.store.embedded import EmbeddedStore
from odradek.controller.store.journal import SqliteJournal
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.meta_properties import InvalidLogDirectory

FILE_NAME = "metadata.sqlite"


class ZooKeeperClientMissing(Exception):
    """The optional dependency for ZooKeeper is not installed."""


def check_store_exists(settings: ServerSettings, directories: LogDirectories) -> None:
    """Raise InvalidLogDirectory if the file is missing: not mounted, lost or in ZooKeeper."""
    if not settings.uses_embedded_store or os.path.exists(_store_file(settings.log.directories)):
        return
    owned = [
        directory.path
        for directory in directories.online
        if directory.meta_properties and directory.meta_properties.cluster_id
    ]
    if owned:
        raise InvalidLogDirectory(
            f"no log directory contains {FILE_NAME}, the metadata store, but {owned[0]} "
            "belongs to a cluster: mount or restore the directory that contained it, or set "
            "zookeeper.connect if the metadata is in ZooKeeper; to start again without "
            "topics, remove meta.properties from every log directory"
        )


def create_store(
    settings: ServerSettings, *, disk_executor: DiskExecutor, now_ms: Callable[[], int]
) -> MetadataStore:
    """Create the store without opening it."""
    if settings.uses_embedded_store:
        file = _store_file(settings.log.directories)
        return EmbeddedStore(SqliteJournal(file), run_in_thread=disk_executor.run, now_ms=now_ms)
    try:
        from odradek.controller.store.zookeeper import ZooKeeperStore
    except ImportError as missing:
        raise ZooKeeperClientMissing(
            f"zookeeper.connect is set, but {missing.name} is not installed: "
            "pip install 'odradek[cluster]'"
        ) from missing
    return ZooKeeperStore(settings.zookeeper, run_in_thread=disk_executor.run)


def _store_file(directories: Sequence[str]) -> Path:
    files = [Path(each) / FILE_NAME for each in directories]
    # Not Path.exists, which raises if the directory is not accessible.
    return next((file for file in files if os.path.exists(file)), files[0])
