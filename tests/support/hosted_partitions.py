"""Replica managers over real logs, told by the tests what a controller would tell them."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from odradek.broker.disk_executor import DiskExecutor
from odradek.broker.log_maintenance import LogMaintenance
from odradek.broker.record_inspector import RecordInspector
from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.replica_manager import ReplicaManager
from odradek.broker.task_registry import TaskRegistry
from odradek.broker.worker_process import WorkerProcess
from odradek.protocol.api.leader_and_isr import LeaderAndIsrPartitionState
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage.cleaner.settings import CleanerSettings
from tests.support.log_managers import managing
from tests.support.logs import NOW_MS
from tests.support.loops import at_end

BROKER = 1


class KnownTopics:
    """The picture of the cluster, as far as replica managers and handlers ask for it."""

    def __init__(self) -> None:
        self.partitions: set[tuple[str, int]] = set()
        self.names: dict[Uuid, str] = {}

    def has_partition(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self.partitions

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self.names.get(topic_id)


class Hosting:
    """A replica manager and what it stands on; closed at the end of the test."""

    def __init__(self, *paths: Path, **settings: Any) -> None:
        self.logs = managing(*paths, **settings)
        self.known = KnownTopics()
        self.background = TaskRegistry()
        self.disk = DiskExecutor(2)
        self.worker = WorkerProcess()
        self.reader = RecordInspector()
        self.care = LogMaintenance(
            self.logs,
            SimpleNamespace(cleaner=CleanerSettings(), background_threads=2),
            disk_executor=self.disk,
            cleaner_process=self.worker,
            now_ms=lambda: NOW_MS,
        )
        self.replicas = ReplicaManager(
            BROKER,
            self.logs,
            self.known,
            log_maintenance=self.care,
            start_task=self.background.start,
            now_ms=lambda: NOW_MS,
        )
        self.logs.directories.observer.handle_log_dir_failure = (  # type: ignore[method-assign]
            lambda directory, *, is_last: self.replicas.handle_log_dir_failure(directory)
        )
        at_end(self._close)

    async def _close(self) -> None:
        await self.background.stop()
        self.worker.close()
        self.reader.close()
        self.disk.close()
        self.logs.close_handlers()
        self.logs.directories.release()

    def lead(self, topic: str = "events", partition: int = 0, **state: Any) -> Partition:
        topic_id = state.pop("topic_id", None)
        self.known.partitions.add((topic, partition))
        if topic_id is not None:
            self.known.names[topic_id] = topic
        told = led(partition, **state)
        return self.replicas.become_leader_or_follower(
            TopicPartition(topic, partition), topic_id, told
        )


def led(
    partition: int = 0,
    *,
    leader: int = BROKER,
    epoch: int = 0,
    replicas: Iterable[int] = (BROKER,),
    in_sync: Iterable[int] | None = None,
    is_new: bool = True,
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=partition,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=list(replicas if in_sync is None else in_sync),
        partition_epoch=epoch,
        replicas=list(replicas),
        is_new=is_new,
    )
