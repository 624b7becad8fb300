"""Plan a restore: the files of each partition, from one export or from several consecutive ones.

Owner: the driver; the plan is immutable and can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.scan.catalog import check_partitions_exist
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.options import ScanOptions
from odradek.spark_jobs.transfer import manifest as manifests
from odradek.spark_jobs.transfer.export_directory import absolute_path
from odradek.spark_jobs.transfer.export_reader import ExportFileRef
from odradek.spark_jobs.transfer.manifest import ExportedPartition, Manifest
from odradek.spark_jobs.transfer.partition_restore import PartitionRestore, RestoreMode

PartitionKey = tuple[str, int]  # topic and partition, as exported


@dataclass(frozen=True, slots=True)
class RestorePlan:
    restores: tuple[PartitionRestore, ...]
    partitions_by_topic: Mapping[str, list[int]]  # by topic of the target
    partition_counts: Mapping[str, int]  # of the exported topics, by their new names


def plan_restore(
    options: ScanOptions, renames: Mapping[str, str], mode: RestoreMode
) -> RestorePlan:
    """Plan a restore of the exports and partitions in ``options``; ``renames`` maps topics."""
    exports = {path: manifests.read_manifest(path) for path in map(absolute_path, options.paths)}
    counts: dict[str, int] = {}
    for manifest in exports.values():
        for topic, count in manifest.partition_counts.items():
            counts[topic] = max(count, counts.get(topic, 0))
    for topic in renames:
        if topic not in counts:
            raise ScanFailed(f"--rename: topic {topic} is not in the export")
    exported = {
        TopicPartition(exported_partition.topic, exported_partition.partition)
        for manifest in exports.values()
        for exported_partition in manifest.partitions
    }
    check_partitions_exist(options, exported)
    keys = sorted(
        exported_partition
        for exported_partition in exported
        if options.selects(*exported_partition)
    )
    partitions_by_topic: dict[str, list[int]] = {}
    for topic, partition in keys:
        partitions_by_topic.setdefault(renames.get(topic, topic), []).append(partition)
    _check_no_duplicates(keys, partitions_by_topic)
    return RestorePlan(
        tuple(_plan_partition(key, exports, renames, mode) for key in keys),
        partitions_by_topic,
        {renames.get(topic, topic): count for topic, count in counts.items()},
    )


def _check_no_duplicates(
    keys: Sequence[PartitionKey], partitions_by_topic: Mapping[str, list[int]]
) -> None:
    if not keys:
        raise ScanFailed("no exported partition matches the selection")
    for topic, partitions in partitions_by_topic.items():
        if len(set(partitions)) < len(partitions):
            raise ScanFailed(f"--rename: two topics would be restored to {topic}")


def _plan_partition(
    key: PartitionKey,
    exports: Mapping[str, Manifest],
    renames: Mapping[str, str],
    mode: RestoreMode,
) -> PartitionRestore:
    topic, partition = key
    ranges: list[ExportedPartition] = []
    files: list[ExportFileRef] = []
    for path, manifest in exports.items():
        ranges += [
            exported
            for exported in manifest.partitions
            if (exported.topic, exported.partition) == key
        ]
        files += [
            ExportFileRef(path, file)
            for file in manifest.files
            if (file.topic, file.partition) == key
        ]
    ranges.sort(key=lambda exported: exported.start_offset)
    for before, after in pairwise(ranges):
        if after.start_offset < before.end_offset:
            raise ScanFailed(
                f"{topic}-{partition}: two exports overlap from offset {after.start_offset} on"
            )
    return PartitionRestore(renames.get(topic, topic), partition, tuple(files), mode)
