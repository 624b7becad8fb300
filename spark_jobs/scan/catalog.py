"""The catalog: the partitions in log directories, their segments and checkpoints.

A path is a log directory or a partition directory.  If several paths hold the same partition, as
replicas do, the most advanced one is used: by high watermark, then by its last segment.

    replication-offset-checkpoint   the high watermark: the log is complete below it; records above
                                    it may still be lost, so they are not read
    log-start-offset-checkpoint     the log start offset: records below it were deleted on request

A log directory without high watermarks was copied without them: its logs are read to their ends.
If a log directory has high watermarks, but none for a partition, the partition is new there and
none of it is readable.

A topic or partition that is named but is in none of the paths is an error, as in Spark's own Kafka
source, unless failOnDataLoss is false.  A pattern may match nothing.

Interrupted compaction leaves ``.swap`` files, which replace the segments whose offsets they cover
(storage/swap_recovery.py).  The catalog treats them the same way.

Owner: the process that plans the scan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.internal_topics.coordinator_partition import find_coordinator_partition
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.file_access import (
    FileSystem,
    file_system_for,
    join_path,
    read_file,
    split_path,
    strip_trailing_slashes,
    with_file_name,
)
from odradek.spark_jobs.scan.options import ScanOptions
from odradek.spark_jobs.scan.segment_reader import OFFSET_MAX, SegmentRange, SegmentReader
from odradek.storage.checkpoint import CorruptCheckpoint
from odradek.storage.offset_checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    OffsetCheckpointFile,
)
from odradek.storage.paths import (
    DirectoryType,
    FileName,
    FileStage,
    LogFileType,
    parse_directory_name,
    parse_file_name,
)


@dataclass(frozen=True, slots=True)
class Segment:
    path: str
    base_offset: int
    size_bytes: int
    next_base_offset: int | None  # the base offset of the following segment; None for the last

    @property
    def offset_max(self) -> int:
        return OFFSET_MAX if self.next_base_offset is None else self.next_base_offset - 1

    def sibling_path(self, file_type: LogFileType) -> str:
        """Return the path of another file of the same segment."""
        # A topic name may contain ".log", and then the directory name does too.
        _, name = split_path(self.path)
        return with_file_name(self.path, name.replace(LogFileType.LOG.value, file_type.value))


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """A partition as found in a directory."""

    topic: str
    partition: int
    directory: str
    segments: tuple[Segment, ...]
    producer_snapshots: tuple[str, ...]  # paths, oldest first
    log_start_offset: int
    high_watermark: int | None

    @property
    def file_system(self) -> FileSystem:
        return file_system_for(self.directory)


def find_partition_logs(options: ScanOptions) -> list[PartitionLog]:
    """Return the selected partitions, sorted.  Raises ScanFailed if a named one is missing."""
    most_advanced: dict[TopicPartition, PartitionLog] = {}
    listings = [list_log_dir(path) for path in options.paths]
    check_partitions_exist(
        options, {partition for listing in listings for partition in listing.partitions}
    )
    for listing in listings:
        for key, log in _load_logs(listing, options):
            if key not in most_advanced or _progress(log) > _progress(most_advanced[key]):
                most_advanced[key] = log
    return [
        most_advanced[key]
        for key in sorted(most_advanced)
        if _may_hold_coordinator_key(options, key, listings)
    ]


def check_partitions_exist(options: ScanOptions, existing: Collection[TopicPartition]) -> None:
    """Raise ScanFailed if the options name a topic or partition that does not exist."""
    if not options.fail_on_data_loss:
        return
    topics = (options.topics or frozenset()) - {topic for topic, _ in existing}
    partitions = (options.assign or frozenset()) - set(existing)
    missing = [*sorted(topics), *(f"{topic}-{number}" for topic, number in sorted(partitions))]
    if missing:
        paths = ", ".join(options.paths)
        raise ScanFailed(
            f"{', '.join(missing)}: not in {paths}; set failOnDataLoss=false to ignore this"
        )


def _may_hold_coordinator_key(
    options: ScanOptions, partition: TopicPartition, listings: Sequence[LogDirListing]
) -> bool:
    """Whether this partition of an internal topic may hold the group or transactional id."""
    if options.coordinator_key is None:
        return True
    # Unselected partitions count too: the hash depends on the number of partitions.
    partitions = {existing for listing in listings for existing in listing.all_partitions()}
    numbers = [number for topic, number in partitions if topic == partition.topic]
    coordinator_partition = find_coordinator_partition(
        options.coordinator_key, numbers, options.partition_count
    )
    return coordinator_partition in (partition.partition, None)


def _progress(log: PartitionLog) -> tuple[int, int, int]:
    last = log.segments[-1] if log.segments else None
    return (
        -1 if log.high_watermark is None else log.high_watermark,
        last.base_offset if last else -1,
        last.size_bytes if last else 0,
    )


def _load_logs(
    listing: LogDirListing, options: ScanOptions
) -> Iterator[tuple[TopicPartition, PartitionLog]]:
    watermarks = read_offset_checkpoint(listing.log_dir, HIGH_WATERMARKS)
    starts = read_offset_checkpoint(listing.log_dir, LOG_START_OFFSETS) or {}
    for partition, directory in listing.partitions.items():
        if options.selects(*partition):
            watermark = None if watermarks is None else watermarks.get(partition, 0)
            if options.ignore_high_watermark:
                watermark = None
            start = starts.get(partition, 0)
            yield partition, load_partition_log(partition, directory, start, watermark)


class LogDirListing(NamedTuple):
    """The partition directories of one log directory."""

    log_dir: str
    partitions: dict[TopicPartition, str]

    def all_partitions(self) -> set[TopicPartition]:
        """Include unselected siblings in the log directory, if it can be listed."""
        try:
            names = file_system_for(self.log_dir).list_names(self.log_dir)
        except OSError:
            return set(self.partitions)
        return {*self.partitions, *_partition_directories(names).keys()}


def list_log_dir(path: str) -> LogDirListing:
    """List a log directory or a partition directory.  Raises ScanFailed if it is neither."""
    path = strip_trailing_slashes(path)
    file_system = file_system_for(path)
    if not file_system.is_directory(path):
        raise ScanFailed(f"{path}: no such directory")
    parent, name = split_path(path)
    directory_name, names = parse_directory_name(name), file_system.list_names(path)
    if directory_name is not None and any(parse_file_name(name) for name in names):
        return LogDirListing(parent or ".", {directory_name.partition: path})
    directories = _partition_directories(names)
    if not directories and HIGH_WATERMARKS.name not in names:
        raise ScanFailed(f"{path}: neither a log directory nor a partition directory")
    return LogDirListing(
        path, {partition: join_path(path, directories[partition]) for partition in directories}
    )


def _partition_directories(names: Iterable[str]) -> dict[TopicPartition, str]:
    """Return the names of the directories of logs in use, by partition."""
    return {
        parsed.partition: name
        for name in names
        if (parsed := parse_directory_name(name)) and parsed.directory_type is DirectoryType.LOG
    }


def read_offset_checkpoint(
    directory: str, checkpoint: OffsetCheckpointFile
) -> dict[TopicPartition, int] | None:
    """Return None if the file does not exist."""
    path = join_path(directory, checkpoint.name)
    content = read_file(file_system_for(directory), path)
    if content is None:
        return None
    try:
        return checkpoint.decode(content, path=Path(path))
    except CorruptCheckpoint as error:
        raise ScanFailed(str(error)) from error


def load_partition_log(
    partition: TopicPartition, directory: str, log_start_offset: int, high_watermark: int | None
) -> PartitionLog:
    """List the files of a partition; the offsets come from the log directory's checkpoints."""
    file_system = file_system_for(directory)
    names = [
        parsed for name in file_system.list_names(directory) if (parsed := parse_file_name(name))
    ]
    segments = _list_segments(file_system, directory, names)
    first = segments[0].base_offset if segments else 0
    return PartitionLog(
        topic=partition.topic,
        partition=partition.partition,
        directory=directory,
        segments=segments,
        producer_snapshots=tuple(
            join_path(directory, str(name))
            for name in sorted(names, key=lambda name: name.offset)
            if name.file_type is LogFileType.PRODUCER_SNAPSHOT and name.stage is FileStage.IN_USE
        ),
        log_start_offset=max(first, log_start_offset),
        high_watermark=high_watermark,
    )


def _list_segments(
    file_system: FileSystem, directory: str, names: list[FileName]
) -> tuple[Segment, ...]:
    files = _log_files_after_swap(file_system, directory, names)
    bases = sorted(files)
    sizes = {base: _size_of(file_system, join_path(directory, str(files[base]))) for base in bases}
    bases = [base for base in bases if sizes[base] is not None]
    next_bases = [*bases[1:], None][: len(bases)]  # a directory may have no segment yet
    return tuple(
        Segment(join_path(directory, str(files[base])), base, sizes[base] or 0, next_base)
        for base, next_base in zip(bases, next_bases, strict=True)
    )


def _size_of(file_system: FileSystem, path: str) -> int | None:
    """Return None if retention has deleted the file since the directory was listed."""
    try:
        return file_system.size_of(path)
    except FileNotFoundError:
        return None


def _log_files_after_swap(
    file_system: FileSystem, directory: str, names: list[FileName]
) -> dict[int, FileName]:
    """Return the log files by base offset, as a broker would have them after start-up."""
    log_files = [name for name in names if name.file_type is LogFileType.LOG]
    files = {name.offset: name for name in log_files if name.stage is FileStage.IN_USE}
    cleaned_offsets = [name.offset for name in names if name.stage is FileStage.CLEANED]
    for name in log_files:
        if name.stage is FileStage.SWAP and name.offset < min(cleaned_offsets, default=OFFSET_MAX):
            end_offset = _end_offset(file_system, join_path(directory, str(name)), name.offset)
            for base in [base for base in files if name.offset <= base < end_offset]:
                del files[base]
            files[name.offset] = name
    return files


def _end_offset(file_system: FileSystem, path: str, base_offset: int) -> int:
    """Return the offset that the next appended batch would get."""
    with file_system.open(path) as file:
        reader = SegmentReader(file, SegmentRange(0, file.size_bytes, base_offset))
        for _ in reader:
            continue
    return reader.next_offset
