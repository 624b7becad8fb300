"""The names of a partition's directory and of the files in it.

    TOPIC-PARTITION                         log of a partition
    TOPIC-PARTITION.UNIQUE-delete           scheduled for deletion
    TOPIC-PARTITION.UNIQUE-future           copy that is moving to another log directory
    TOPIC-PARTITION.UNIQUE-stray            log of a topic that the controller does not know

    00000000000000000042.log                segment with base offset 42
                        .index .timeindex .txnindex
                        .snapshot           producer state before offset 42
                        ... .deleted        scheduled for deletion
                        ... .cleaned        compaction is writing it
                        ... .swap           compaction has written it; it will replace its segment

UNIQUE is 32 hexadecimal digits.  File names have at most 255 bytes, and topic names may have 249.
The topic is shortened in the name of a directory to be deleted, but not in a ``-future`` name,
which must identify the topic after a restart.  A topic with such a long name cannot move between
log directories (KAFKA-4893).

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from uuid import uuid4

from odradek.protocol.errors import InvalidTopic
from odradek.protocol.types import TopicPartition

NAME_BYTES_MAX = 255
PARTITION_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1

_TOPIC = r"[a-zA-Z0-9._-]{1,249}"
_VALID_TOPIC = re.compile(_TOPIC)


def is_valid_topic_name(name: str) -> bool:
    """Whether Kafka accepts the topic name; every such name fits into a directory name."""
    return _VALID_TOPIC.fullmatch(name) is not None and name not in (".", "..")


class DirectoryType(Enum):
    """The purpose of a partition's directory; the value is the suffix of its name."""

    LOG = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


@dataclass(frozen=True, slots=True)
class DirectoryName:
    """The name of a partition's directory.  The topic of a deleted one may be shortened."""

    partition: TopicPartition
    directory_type: DirectoryType = DirectoryType.LOG
    unique_id: str = ""

    def __str__(self) -> str:
        assert bool(self.unique_id) == (self.directory_type is not DirectoryType.LOG), (
            self.directory_type
        )
        topic, partition = self.partition
        if self.directory_type is DirectoryType.LOG:
            return f"{topic}-{partition}"
        suffix = f"-{partition}.{self.unique_id}{self.directory_type.value}"
        topic_bytes_max = NAME_BYTES_MAX - len(suffix)
        if len(topic) > topic_bytes_max and self.directory_type is DirectoryType.FUTURE:
            raise InvalidTopic(
                f"{topic}: a topic name of more than {topic_bytes_max} characters cannot move "
                "between log directories"
            )
        return topic[:topic_bytes_max] + suffix


def new_directory_name(partition: TopicPartition, directory_type: DirectoryType) -> DirectoryName:
    """Return a name that no other directory has."""
    return DirectoryName(
        partition, directory_type, "" if directory_type is DirectoryType.LOG else uuid4().hex
    )


_DIRECTORY = re.compile(
    rf"(?P<topic>{_TOPIC})-(?P<partition>0|[1-9][0-9]{{0,9}})"
    r"(?:\.(?P<unique>[0-9a-f]{32})(?P<purpose>-delete|-future|-stray))?"
)


def parse_directory_name(name: str) -> DirectoryName | None:
    """Return None if it is not the name of a partition's directory."""
    match = _DIRECTORY.fullmatch(name)
    if match is None or int(match["partition"]) > PARTITION_MAX:
        return None
    partition = TopicPartition(match["topic"], int(match["partition"]))
    return DirectoryName(partition, DirectoryType(match["purpose"] or ""), match["unique"] or "")


class LogFileType(Enum):
    """The content of a log's file; the value is the first suffix of its name."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"


#: The files of a segment, the .log file last: the segment exists if the .log file does.
SEGMENT_FILE_TYPES = (
    LogFileType.OFFSET_INDEX,
    LogFileType.TIME_INDEX,
    LogFileType.TRANSACTION_INDEX,
    LogFileType.LOG,
)


class FileStage(Enum):
    """The life cycle of a file; the value is the last suffix of its name."""

    IN_USE = ""
    DELETED = ".deleted"
    CLEANED = ".cleaned"
    SWAP = ".swap"


@dataclass(frozen=True, slots=True)
class FileName:
    """The name of a segment's file or of a producer snapshot."""

    offset: int
    file_type: LogFileType
    stage: FileStage = FileStage.IN_USE

    def __str__(self) -> str:
        return f"{self.offset:020}{self.file_type.value}{self.stage.value}"


_FILE = re.compile(
    r"(?P<offset>[0-9]{20})(?P<content>\.log|\.index|\.timeindex|\.txnindex|\.snapshot)"
    r"(?P<stage>\.deleted|\.cleaned|\.swap|)"
)


def parse_file_name(name: str) -> FileName | None:
    """Return None if it is not the name of a segment file or a snapshot."""
    match = _FILE.fullmatch(name)
    if match is None or int(match["offset"]) > OFFSET_MAX:
        return None
    return FileName(int(match["offset"]), LogFileType(match["content"]), FileStage(match["stage"]))


def file_path(
    directory: Path, offset: int, file_type: LogFileType, stage: FileStage = FileStage.IN_USE
) -> Path:
    return directory / f"{offset:020}{file_type.value}{stage.value}"
