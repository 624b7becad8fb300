"""What is to be restored: of each partition the files of one export, or of several in a row.

Owner: the driver; what it makes is immutable and can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.scan.catalog import check_named
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.options import Options
from odradek.spark_jobs.transfer import manifest as manifests
from odradek.spark_jobs.transfer.export_rows import PlacedFile
from odradek.spark_jobs.transfer.manifest import ExportedPartition, Manifest
from odradek.spark_jobs.transfer.places import absolute
from odradek.spark_jobs.transfer.restoring import PartitionRestore, Presence

Key = tuple[str, int]  # topic and partition, as exported


@dataclass(frozen=True, slots=True)
class RestorePlan:
    restores: tuple[PartitionRestore, ...]
    needed: Mapping[str, list[int]]  # partitions by topic, those of the target
    partition_counts: Mapping[str, int]  # of the topics that were exported, by their new names


def plan_restore(options: Options, names: Mapping[str, str], presence: Presence) -> RestorePlan:
    """``options`` say which exports and which partitions; ``names`` are new ones of topics."""
    exports = {path: manifests.read(path) for path in map(absolute, options.paths)}
    counts: dict[str, int] = {}
    for manifest in exports.values():
        for topic, count in manifest.partition_counts.items():
            counts[topic] = max(count, counts.get(topic, 0))
    for topic in names:
        if topic not in counts:
            raise ScanFailed(f"--rename: no topic {topic} was exported")
    exported = {
        TopicPartition(each.topic, each.partition)
        for manifest in exports.values()
        for each in manifest.partitions
    }
    check_named(options, exported)
    keys = sorted(each for each in exported if options.wants(*each))
    needed: dict[str, list[int]] = {}
    for topic, partition in keys:
        needed.setdefault(names.get(topic, topic), []).append(partition)
    _check_distinct(keys, needed)
    return RestorePlan(
        tuple(_restore(key, exports, names, presence) for key in keys),
        needed,
        {names.get(topic, topic): count for topic, count in counts.items()},
    )


def _check_distinct(keys: Sequence[Key], needed: Mapping[str, list[int]]) -> None:
    if not keys:
        raise ScanFailed("nothing of that was exported")
    for topic, partitions in needed.items():
        if len(set(partitions)) < len(partitions):
            raise ScanFailed(f"--rename: two topics would both become {topic}")


def _restore(
    key: Key, exports: Mapping[str, Manifest], names: Mapping[str, str], presence: Presence
) -> PartitionRestore:
    topic, partition = key
    ranges: list[ExportedPartition] = []
    files: list[PlacedFile] = []
    for path, manifest in exports.items():
        ranges += [each for each in manifest.partitions if (each.topic, each.partition) == key]
        files += [
            PlacedFile(path, file) for file in manifest.files if (file.topic, file.partition) == key
        ]
    ranges.sort(key=lambda each: each.start_offset)
    for before, after in pairwise(ranges):
        if after.start_offset < before.end_offset:
            raise ScanFailed(
                f"{topic}-{partition}: two exports have offsets from {after.start_offset} on"
            )
    return PartitionRestore(names.get(topic, topic), partition, tuple(files), presence)
