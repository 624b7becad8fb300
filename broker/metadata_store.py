"""Where the cluster's metadata is kept: in ZooKeeper, or in a file if this broker is alone.

The file lies in a log directory, beside the logs that it tells of: where it was made, which is the
first, even if another has been put before that since.  It is made once: directories that belong to
a cluster already and have none are refused, since without it all their topics would be gone.

Owner: the event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from odradek.broker.disk import Disk
from odradek.broker.settings.server_settings import ServerSettings
from odradek.controller.store.base import MetadataStore
from odradek.controller.store.embedded import EmbeddedStore
from odradek.controller.store.journal import SqliteJournal
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.meta_properties import DirectoryRefused

FILE_NAME = "metadata.sqlite"


class MissingClient(Exception):
    """The extra that speaks to ZooKeeper is not installed."""


def check_store_is_there(settings: ServerSettings, directories: LogDirectories) -> None:
    """DirectoryRefused if there was one, and it is not mounted, or lost, or in ZooKeeper."""
    if not settings.is_alone or os.path.exists(_file_in(settings.log.directories)):
        return
    owned = [each.path for each in directories.online if each.meta and each.meta.cluster_id]
    if owned:
        raise DirectoryRefused(
            f"{FILE_NAME}, which knows all topics, is in no log directory, though {owned[0]} "
            "belongs to a cluster: mount or restore the directory it was in, or set "
            "zookeeper.connect if it is there that topics are known; to begin anew, without "
            "topics, remove meta.properties from every log directory"
        )


def store_for(settings: ServerSettings, *, disk: Disk, now_ms: Callable[[], int]) -> MetadataStore:
    """Not open yet."""
    if settings.is_alone:
        file = _file_in(settings.log.directories)
        return EmbeddedStore(SqliteJournal(file), run=disk.run, now_ms=now_ms)
    try:
        from odradek.controller.store.zookeeper import ZooKeeperStore
    except ImportError as missing:
        raise MissingClient(
            f"zookeeper.connect is set, and {missing.name} is not installed: "
            "pip install 'odradek[cluster]'"
        ) from missing
    return ZooKeeperStore(settings.zookeeper, run=disk.run)


def _file_in(directories: Sequence[str]) -> Path:
    files = [Path(each) / FILE_NAME for each in directories]
    # Not by Path, which raises where one may not look.
    return next((file for file in files if os.path.exists(file)), files[0])
