"""Short ways to run log managers over directories, to kill them and to start them again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from odradek.protocol.types import TopicPartition
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_task import DiskTask, execute
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.log_dir_loader import TaskRunner, run_sequentially
from odradek.storage.manager.log_manager import LogManager
from odradek.storage.retention import DeletableSegment
from odradek.storage.settings import TopicSettings
from odradek.storage.topic_settings_registry import TopicSettingsRegistry
from tests.support.logs import NOW_MS, append, bytes_of, records_from

EVENTS = TopicPartition("events", 0)
ORDERS = TopicPartition("orders", 0)

#: Not a namespace with methods: it travels to worker processes.
PRODUCERS = SimpleNamespace(
    producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=False
)


@dataclass
class Notebook:
    """An observer that writes everything down."""

    notes: list[str] = field(default_factory=list)
    progress: list[tuple[Path, int, int]] = field(default_factory=list)
    failed: list[tuple[Path, bool]] = field(default_factory=list)

    def on_warning(self, message: str) -> None:
        self.notes.append(message)

    def on_recovery_progress(self, directory: LogDirectory, *, done: int, total: int) -> None:
        self.progress.append((directory.path, done, total))

    def handle_log_dir_failure(self, directory: LogDirectory, *, is_last: bool) -> None:
        self.failed.append((directory.path, is_last))


def managing(
    *paths: Path,
    observer: Notebook | None = None,
    topics: dict[str, TopicSettings] | None = None,
    run_all: TaskRunner = run_sequentially,
    **settings: Any,
) -> LogManager:
    """A manager that has loaded what is in these directories."""
    directories = LogDirectories(paths, observer or Notebook())
    directories.open()
    table = TopicSettingsRegistry(TopicSettings(**settings), PRODUCERS, topics)
    manager = LogManager(directories, table)
    manager.load(now_ms=NOW_MS, run_all=run_all)
    return manager


def written(manager: LogManager, partition: TopicPartition, *values: bytes) -> HostedLog:
    """Each value in a batch of its own, in a log that is made if need be; replicated at once."""
    hosted = manager.get_or_create_log(partition, now_ms=NOW_MS)
    with hosted as log:
        for value in values:
            append(log, value)
    return hosted


def values_in(hosted: HostedLog) -> list[bytes]:
    with hosted as log:
        return [record.value for record in records_from(log)]


def contents(manager: LogManager) -> dict[TopicPartition, list[bytes]]:
    return {partition: values_in(hosted) for partition, hosted in manager.logs.current.items()}


def flush(hosted: HostedLog) -> None:
    work = hosted.flush_task(now_ms=NOW_MS)
    assert work is not None
    execute(work)


def carry_all(works: Iterable[DiskTask]) -> None:
    for work in works:
        execute(work)


def retain(manager: LogManager, *, now_ms: int = NOW_MS) -> list[DeletableSegment]:
    """What retention has taken out of the logs and set aside."""
    outlived, works = manager.maintenance.apply_retention(now_ms)
    carry_all(works)
    return outlived


def delete(manager: LogManager, *partitions: TopicPartition) -> None:
    for partition in partitions:
        manager.delete(partition)
    carry_all(manager.deletion_tasks(now_ms=NOW_MS))


def copied(manager: LogManager, partition: TopicPartition, directory: LogDirectory) -> HostedLog:
    """A copy of a log, in another directory, that has caught up."""
    hosted = manager.find(partition)
    assert hosted is not None
    future = manager.find_future(partition)
    future = future or manager.create_future(partition, directory, now_ms=NOW_MS)
    with hosted as log, future as copy:
        while copy.log_end_offset < log.log_end_offset:
            region = log.read(copy.log_end_offset, max_bytes=1 << 20, max_offset=log.log_end_offset)
            copy.append_as_follower(bytearray(bytes_of(region)), now_ms=NOW_MS)
    return future


def move(manager: LogManager, partition: TopicPartition, directory: LogDirectory) -> None:
    """All steps of a move, one after the other."""
    copied(manager, partition, directory)
    carry_all(manager.prepare_move(partition, now_ms=NOW_MS))
    work = manager.finish_move(partition)
    assert work is not None
    execute(work)
    carry_all(manager.deletion_tasks(now_ms=NOW_MS))


def names_in(path: Path, ending: str = "") -> Sequence[str]:
    return sorted(each.name for each in path.iterdir() if each.name.endswith(ending))
