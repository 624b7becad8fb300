"""The options of a scan, named as in Spark's own Kafka source where it has them.

    path                 log directories or partition directories, separated by commas
    topics, topicsPattern, assign       ``a,b``; a regular expression; ``{"a": [0, 1]}``
    startingOffsets      earliest, or ``{"a": {"0": 23, "1": -2}}``; -2 is the earliest
    endingOffsets        latest, or likewise; -1 is the latest; exclusive
    startingTimestamp    in milliseconds: start at the first record with this timestamp or a later
                         one
    endingTimestamp      likewise: end before the first such record
    isolationLevel       read_committed, or read_uncommitted
    columns              a list; the default is the columns of Spark's Kafka source
    includeHeaders       adds the column ``headers``
    includeControl       adds transaction markers, and the column ``isControl``
    view                 records, or batches
    content              raw; offsets or transactions: decode the records of an internal topic
    group, transactionalId       with content: only the records of this group or id
    partitionCount       the number of partitions of the internal topic:
                         internal_topics/coordinator_partition.py
    mode                 PERMISSIVE, DROPMALFORMED or FAILFAST: damage.py
    maxSplitBytes        128 MB
    failOnDataLoss       true: a segment that was deleted before it is read is an error, and so is
                         a named topic or partition that does not exist
    ignoreHighWatermark  false: records above the high watermark in the log directory's checkpoint
                         are not read

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from odradek.spark_jobs.internal_topics.content import INTERNAL_TOPICS, Content
from odradek.spark_jobs.scan.damage import ParseMode, ScanFailed

MAX_SPLIT_BYTES = 128 * 1024 * 1024
LATEST, EARLIEST = -1, -2

SPARK_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")

PartitionOffsets = Mapping[tuple[str, int], int]


class View(StrEnum):
    RECORDS = "records"
    BATCHES = "batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    paths: tuple[str, ...]
    topics: frozenset[str] | None = None
    topics_pattern: str | None = None
    assign: frozenset[tuple[str, int]] | None = None
    # A partition without an entry starts at the earliest and ends at the latest offset.
    starting_offsets: PartitionOffsets = field(default_factory=dict)
    ending_offsets: PartitionOffsets = field(default_factory=dict)
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    is_read_committed: bool = True
    view: View = View.RECORDS
    content: Content = Content.RAW
    coordinator_key: str | None = None  # the selected group or transactional id
    partition_count: int | None = None
    columns: tuple[str, ...] = SPARK_COLUMNS
    include_control: bool = False
    mode: ParseMode = ParseMode.PERMISSIVE
    max_split_bytes: int = MAX_SPLIT_BYTES
    fail_on_data_loss: bool = True
    ignore_high_watermark: bool = False

    def selects(self, topic: str, partition: int) -> bool:
        if self.assign is not None:
            return (topic, partition) in self.assign
        if self.topics is not None:
            return topic in self.topics
        if self.topics_pattern is not None:
            return bool(re.fullmatch(self.topics_pattern, topic))
        return self.content is Content.RAW or topic == INTERNAL_TOPICS[self.content].name


def parse_options(raw_options: Mapping[str, str]) -> ScanOptions:
    """Parse the options; names may have any case, as Spark passes them.  Raises ScanFailed."""
    by_lower_name = {name.lower(): (name, value) for name, value in raw_options.items()}
    unknown = [
        name
        for lower, (name, _) in by_lower_name.items()
        if lower not in _OPTION_NAME_BY_LOWER_CASE
    ]
    if unknown:
        raise ScanFailed(f"unknown option {unknown[0]}; known options: {', '.join(_OPTION_NAMES)}")
    options = {
        _OPTION_NAME_BY_LOWER_CASE[lower]: value for lower, (_, value) in by_lower_name.items()
    }
    view = _parse_enum(View, options, "view", View.RECORDS)
    content = _parse_enum(Content, options, "content", Content.RAW)
    _check_exclusive_options(options)
    _check_content_options(options, content, view)
    include_control = _parse_bool(options, "includeControl")
    paths = tuple(path.strip() for path in options.get("path", "").split(",") if path.strip())
    return ScanOptions(
        paths=paths,
        topics=frozenset(_split_list(options["topics"])) if "topics" in options else None,
        topics_pattern=_check_pattern(options.get("topicsPattern")),
        assign=_parse_assignment(options["assign"]) if "assign" in options else None,
        starting_offsets=_parse_offsets(options, "startingOffsets", "earliest"),
        ending_offsets=_parse_offsets(options, "endingOffsets", "latest"),
        starting_timestamp=_parse_number(options, "startingTimestamp"),
        ending_timestamp=_parse_number(options, "endingTimestamp"),
        is_read_committed=_is_read_committed(options.get("isolationLevel", "read_committed")),
        view=view,
        content=content,
        coordinator_key=options.get(INTERNAL_TOPICS[content].id_option)
        if content is not Content.RAW
        else None,
        partition_count=_parse_number(options, "partitionCount", minimum=1),
        columns=_parse_columns(options, view, content, include_control=include_control),
        include_control=include_control,
        mode=_parse_enum(ParseMode, options, "mode", ParseMode.PERMISSIVE),
        max_split_bytes=_parse_number(options, "maxSplitBytes", minimum=1) or MAX_SPLIT_BYTES,
        fail_on_data_loss=_parse_bool(options, "failOnDataLoss", default=True),
        ignore_high_watermark=_parse_bool(options, "ignoreHighWatermark"),
    )


_OPTION_NAMES = (
    "path",
    "topics",
    "topicsPattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "isolationLevel",
    "columns",
    "includeHeaders",
    "includeControl",
    "view",
    "content",
    "group",
    "transactionalId",
    "partitionCount",
    "mode",
    "maxSplitBytes",
    "failOnDataLoss",
    "ignoreHighWatermark",
)
_OPTION_NAME_BY_LOWER_CASE = {name.lower(): name for name in _OPTION_NAMES}
_SELECTIONS = ("topics", "topicsPattern", "assign")


def _check_exclusive_options(options: Mapping[str, str]) -> None:
    if not options.get("path", "").strip():
        raise ScanFailed("path: name at least one log directory")
    for names in (
        _SELECTIONS,
        ("startingOffsets", "startingTimestamp"),
        ("endingOffsets", "endingTimestamp"),
    ):
        chosen = [name for name in names if name in options]
        if len(chosen) > 1:
            raise ScanFailed(f"{' and '.join(chosen)} cannot be given together")


def _check_content_options(options: Mapping[str, str], content: Content, view: View) -> None:
    for topic_content, internal_topic in INTERNAL_TOPICS.items():
        if internal_topic.id_option in options and content is not topic_content:
            raise ScanFailed(f"{internal_topic.id_option}: requires content={topic_content}")
    if content is Content.RAW and "partitionCount" in options:
        raise ScanFailed("partitionCount: requires content=offsets or content=transactions")
    if content is not Content.RAW and view is View.BATCHES:
        raise ScanFailed(f"view={view}: cannot be combined with content")
    if content is not Content.RAW and _parse_bool(options, "includeHeaders"):
        raise ScanFailed(f"includeHeaders: not available with content={content}")


def _parse_columns(
    options: Mapping[str, str], view: View, content: Content, *, include_control: bool
) -> tuple[str, ...]:
    known = column_types(view, content)
    is_raw = view is not View.BATCHES and content is Content.RAW
    columns = _split_list(options.get("columns", "")) or list(SPARK_COLUMNS if is_raw else known)
    if is_raw:
        columns += ["headers"] if _parse_bool(options, "includeHeaders") else []
        columns += ["isControl"] if include_control else []
    for name in columns:
        if name not in known:
            raise ScanFailed(f"columns: unknown column {name!r}; known columns: {', '.join(known)}")
    return tuple(dict.fromkeys(columns))


def column_types(view: View, content: Content) -> dict[str, Any]:
    """Return the Arrow types of all available columns."""
    from odradek.spark_jobs.internal_topics.columns import CONTENT_COLUMNS
    from odradek.spark_jobs.scan.columns import BATCH_COLUMNS, RECORD_COLUMNS

    if view is View.BATCHES:
        return BATCH_COLUMNS
    return RECORD_COLUMNS if content is Content.RAW else CONTENT_COLUMNS[content].types


def _parse_offsets(options: Mapping[str, str], name: str, keyword: str) -> PartitionOffsets:
    text = options.get(name, keyword).strip()
    if text == keyword:
        return {}
    try:
        return {
            (topic, int(partition)): _check_offset(offset)
            for topic, partitions in json.loads(text).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError) as error:
        raise ScanFailed(
            f'{name}: must be {keyword} or JSON such as {{"topic": {{"0": 23}}}}, not {text}'
        ) from error


def _check_offset(offset: Any) -> int:
    if type(offset) is not int or offset < EARLIEST:
        raise ValueError(offset)
    return offset


def _parse_assignment(text: str) -> frozenset[tuple[str, int]]:
    try:
        return frozenset(
            (topic, int(partition))
            for topic, partitions in json.loads(text).items()
            for partition in partitions
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise ScanFailed(f'assign={text}: must be JSON such as {{"topic": [0, 1]}}') from error


def _check_pattern(text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as error:
        raise ScanFailed(f"topicsPattern: {error}") from error
    return text


def _is_read_committed(level: str) -> bool:
    if level not in ("read_committed", "read_uncommitted"):
        raise ScanFailed(f"isolationLevel: read_committed or read_uncommitted, not {level}")
    return level == "read_committed"


def _parse_number(options: Mapping[str, str], name: str, *, minimum: int = 0) -> int | None:
    if name not in options:
        return None
    text = options[name].strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= minimum):
        raise ScanFailed(f"{name}={text}: must be an integer in range, of at most 18 digits")
    return int(text)


def _parse_bool(options: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ScanFailed(f"{name}={text}: must be true or false")
    return text == "true"


Choice = TypeVar("Choice", bound=StrEnum)


def _parse_enum(
    enum_type: type[Choice], options: Mapping[str, str], name: str, default: Choice
) -> Choice:
    text = options.get(name, default.value)
    for member in enum_type:
        if member.value.lower() == text.strip().lower():
            return member
    raise ScanFailed(f"{name}: must be one of {', '.join(enum_type)}, not {text}")


def _split_list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
