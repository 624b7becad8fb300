"""What data there is: the partitions in log directories, their segments and checkpoints.

A path is a log directory or a partition's directory.  If several have the same partition, as
replicas do, the one that is furthest is taken: by high watermark, then by its last segment.

    replication-offset-checkpoint   the high watermark: what lies before it is complete, and what
                                    lies behind it may yet be lost, so it is not read
    log-start-offset-checkpoint     what lies before was deleted on request

A log directory that has no high watermarks was copied without them: its logs are read to their
ends.  One that has them, but not of some partition, has just got it, and nothing of it is readable.

Whoever names a topic, or a partition, that is in none of the paths is told so, as by Spark's own
Kafka source, unless failOnDataLoss is false.  A pattern may match nothing.

Compaction that was interrupted leaves ``.swap`` files, which take the place of the segments whose
offsets they cover (storage/swap_recovery.py): so they do here.

Owner: whoever plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.contents.home_partition import home_partition
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.file_access import (
    FileSystem,
    file_system_of,
    joined,
    parted,
    read_whole,
    renamed,
    trimmed,
)
from odradek.spark_jobs.scan.options import Options
from odradek.spark_jobs.scan.walk import OFFSET_MAX, Stretch, Walk
from odradek.storage.checkpoint import CheckpointDamaged
from odradek.storage.offset_checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    OffsetCheckpoint,
)
from odradek.storage.paths import Content, FileName, Purpose, Stage, directory_named, file_named


@dataclass(frozen=True, slots=True)
class Segment:
    path: str
    base_offset: int
    size_bytes: int
    next_base_offset: int | None  # of the segment that follows; None for the last

    @property
    def offset_max(self) -> int:
        return OFFSET_MAX if self.next_base_offset is None else self.next_base_offset - 1

    def beside(self, content: Content) -> str:
        """Another file of the same segment."""
        # A topic may have ".log" in its name, and so a directory.
        _, name = parted(self.path)
        return renamed(self.path, name.replace(Content.BATCHES.value, content.value))


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """A partition as it is found in a directory."""

    topic: str
    partition: int
    directory: str
    segments: tuple[Segment, ...]
    snapshots: tuple[str, ...]  # paths of producer snapshots, oldest first
    log_start_offset: int
    high_watermark: int | None

    @property
    def system(self) -> FileSystem:
        return file_system_of(self.directory)


def partition_logs(options: Options) -> list[PartitionLog]:
    """Those that are wanted, by topic and partition; ScanFailed if what is named is not there."""
    furthest: dict[TopicPartition, PartitionLog] = {}
    directories = [directories_at(path) for path in options.paths]
    check_named(options, {each for found in directories for each in found.partitions})
    for found in directories:
        for key, log in _logs_in(found, options):
            if key not in furthest or _reach(log) > _reach(furthest[key]):
                furthest[key] = log
    return [furthest[key] for key in sorted(furthest) if _may_have(options, key, directories)]


def check_named(options: Options, present: Collection[TopicPartition]) -> None:
    """ScanFailed if a topic or partition was named that is not present."""
    if not options.fail_on_data_loss:
        return
    topics = (options.topics or frozenset()) - {topic for topic, _ in present}
    partitions = (options.assign or frozenset()) - set(present)
    missing = [*sorted(topics), *(f"{topic}-{number}" for topic, number in sorted(partitions))]
    if missing:
        where = ", ".join(options.paths)
        raise ScanFailed(
            f"{', '.join(missing)}: not in {where}; failOnDataLoss=false goes on without"
        )


def _may_have(
    options: Options, partition: TopicPartition, directories: Sequence[Directories]
) -> bool:
    """Whether whoever is looked for can be in that partition of an internal topic."""
    if options.named is None:
        return True
    # Also those that are not wanted: it is by their number that the hash leads to one.
    present = {each for found in directories for each in found.all_partitions()}
    numbers = [number for topic, number in present if topic == partition.topic]
    home = home_partition(options.named, numbers, options.partition_count)
    return home in (partition.partition, None)


def _reach(log: PartitionLog) -> tuple[int, int, int]:
    last = log.segments[-1] if log.segments else None
    return (
        -1 if log.high_watermark is None else log.high_watermark,
        last.base_offset if last else -1,
        last.size_bytes if last else 0,
    )


def _logs_in(found: Directories, options: Options) -> Iterator[tuple[TopicPartition, PartitionLog]]:
    watermarks = offsets_in(found.log_dir, HIGH_WATERMARKS)
    starts = offsets_in(found.log_dir, LOG_START_OFFSETS) or {}
    for partition, directory in found.partitions.items():
        if options.wants(*partition):
            watermark = None if watermarks is None else watermarks.get(partition, 0)
            if options.ignore_high_watermark:
                watermark = None
            start = starts.get(partition, 0)
            yield partition, partition_log(partition, directory, start, watermark)


class Directories(NamedTuple):
    """Those of partitions, and the log directory that they are in."""

    log_dir: str
    partitions: dict[TopicPartition, str]

    def all_partitions(self) -> set[TopicPartition]:
        """Those beside them in the log directory, too, as far as it can be listed."""
        try:
            names = file_system_of(self.log_dir).names(self.log_dir)
        except OSError:
            return set(self.partitions)
        return {*self.partitions, *_partition_directories(names).keys()}


def directories_at(path: str) -> Directories:
    """``path`` is a log directory or a partition's; ScanFailed if it is neither."""
    path = trimmed(path)
    system = file_system_of(path)
    if not system.is_directory(path):
        raise ScanFailed(f"{path}: no such directory")
    above, name = parted(path)
    own, names = directory_named(name), system.names(path)
    if own is not None and any(file_named(name) for name in names):
        return Directories(above or ".", {own.partition: path})
    found = _partition_directories(names)
    if not found and HIGH_WATERMARKS.name not in names:
        raise ScanFailed(f"{path}: neither a log directory nor a partition's")
    return Directories(path, {partition: joined(path, found[partition]) for partition in found})


def _partition_directories(names: Iterable[str]) -> dict[TopicPartition, str]:
    """Of logs in use, by partition."""
    return {
        known.partition: name
        for name in names
        if (known := directory_named(name)) and known.purpose is Purpose.LOG
    }


def offsets_in(directory: str, file: OffsetCheckpoint) -> dict[TopicPartition, int] | None:
    """None if there is no such file."""
    path = joined(directory, file.name)
    content = read_whole(file_system_of(directory), path)
    if content is None:
        return None
    try:
        return file.decode(content, path=Path(path))
    except CheckpointDamaged as damaged:
        raise ScanFailed(str(damaged)) from damaged


def partition_log(
    partition: TopicPartition, directory: str, start_offset: int, high_watermark: int | None
) -> PartitionLog:
    """As it is found in its directory; the offsets are those of the log directory's checkpoints."""
    system = file_system_of(directory)
    names = [known for name in system.names(directory) if (known := file_named(name))]
    segments = _segments(system, directory, names)
    first = segments[0].base_offset if segments else 0
    return PartitionLog(
        topic=partition.topic,
        partition=partition.partition,
        directory=directory,
        segments=segments,
        snapshots=tuple(
            joined(directory, str(name))
            for name in sorted(names, key=lambda name: name.offset)
            if name.content is Content.PRODUCER_SNAPSHOT and name.stage is Stage.IN_USE
        ),
        log_start_offset=max(first, start_offset),
        high_watermark=high_watermark,
    )


def _segments(system: FileSystem, directory: str, names: list[FileName]) -> tuple[Segment, ...]:
    files = _files_in_place(system, directory, names)
    bases = sorted(files)
    sizes = {base: _size_of(system, joined(directory, str(files[base]))) for base in bases}
    bases = [base for base in bases if sizes[base] is not None]
    following = [*bases[1:], None][: len(bases)]  # a directory may have no segment yet
    return tuple(
        Segment(joined(directory, str(files[base])), base, sizes[base] or 0, after)
        for base, after in zip(bases, following, strict=True)
    )


def _size_of(system: FileSystem, path: str) -> int | None:
    """None if it is gone: retention was quicker."""
    try:
        return system.size_of(path)
    except FileNotFoundError:
        return None


def _files_in_place(
    system: FileSystem, directory: str, names: list[FileName]
) -> dict[int, FileName]:
    """The files of batches, by base offset, as a broker would have them once it has started."""
    batches = [name for name in names if name.content is Content.BATCHES]
    files = {name.offset: name for name in batches if name.stage is Stage.IN_USE}
    unfinished = [name.offset for name in names if name.stage is Stage.CLEANED]
    for name in batches:
        if name.stage is Stage.SWAP and name.offset < min(unfinished, default=OFFSET_MAX):
            end_offset = _end_offset(system, joined(directory, str(name)), name.offset)
            for base in [base for base in files if name.offset <= base < end_offset]:
                del files[base]
            files[name.offset] = name
    return files


def _end_offset(system: FileSystem, path: str, base_offset: int) -> int:
    """That of the next batch, if there were one."""
    with system.open(path) as file:
        walk = Walk(file, Stretch(0, file.size_bytes, base_offset))
        for _ in walk:
            continue
    return walk.next_offset
