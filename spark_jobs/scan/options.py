"""What is wanted of a scan, in the words of Spark's own Kafka source where it has them.

    path                 log directories or partitions' directories, separated by commas
    topics, topicsPattern, assign       ``a,b``; a regular expression; ``{"a": [0, 1]}``
    startingOffsets      earliest, or ``{"a": {"0": 23, "1": -2}}``; -2 is the earliest
    endingOffsets        latest, or likewise; -1 is the latest; not included
    startingTimestamp    in milliseconds: from the first record on that is as young as that
    endingTimestamp      likewise, up to the first record that is
    isolationLevel       read_committed, or read_uncommitted
    columns              a list; without it those of Spark's Kafka source
    includeHeaders       adds the column ``headers``
    includeControl       adds markers of transactions, and the column ``isControl``
    view                 records, or batches
    content              raw; offsets or transactions: what the records of an internal topic mean
    group, transactionalId       with content: only the records of this one
    partitionCount       how many partitions the internal topic has: contents/home_partition.py
    mode                 PERMISSIVE, DROPMALFORMED or FAILFAST: damage.py
    maxSplitBytes        128 MB
    failOnDataLoss       true: a segment that is gone when it is to be read is an error, and so is a
                         topic or partition that is named and not there
    ignoreHighWatermark  false: no record beyond the checkpoint in its log directory is read

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from odradek.spark_jobs.contents.content import HOMES, Content
from odradek.spark_jobs.scan.damage import Mode, ScanFailed

MAX_SPLIT_BYTES = 128 * 1024 * 1024
LATEST, EARLIEST = -1, -2

SPARK_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")

Offsets = Mapping[tuple[str, int], int]


class View(StrEnum):
    RECORDS = "records"
    BATCHES = "batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    paths: tuple[str, ...]
    topics: frozenset[str] | None = None
    topics_pattern: str | None = None
    assign: frozenset[tuple[str, int]] | None = None
    starting_offsets: Offsets = field(default_factory=dict)  # the earliest where nothing is said
    ending_offsets: Offsets = field(default_factory=dict)  # the latest
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    is_committed: bool = True
    view: View = View.RECORDS
    content: Content = Content.RAW
    named: str | None = None  # the group or transactional id that is looked for
    partition_count: int | None = None
    columns: tuple[str, ...] = SPARK_COLUMNS
    include_control: bool = False
    mode: Mode = Mode.PERMISSIVE
    max_split_bytes: int = MAX_SPLIT_BYTES
    fail_on_data_loss: bool = True
    ignore_high_watermark: bool = False

    def wants(self, topic: str, partition: int) -> bool:
        if self.assign is not None:
            return (topic, partition) in self.assign
        if self.topics is not None:
            return topic in self.topics
        if self.topics_pattern is not None:
            return bool(re.fullmatch(self.topics_pattern, topic))
        return self.content is Content.RAW or topic == HOMES[self.content].topic


def options_of(given: Mapping[str, str]) -> Options:
    """ScanFailed if something makes no sense.  Names may have any case, as Spark passes them."""
    named = {name.lower(): (name, value) for name, value in given.items()}
    unknown = [name for lower, (name, _) in named.items() if lower not in _KNOWN]
    if unknown:
        raise ScanFailed(f"no option is called {unknown[0]}; there are {', '.join(_NAMES)}")
    told = {_KNOWN[lower]: value for lower, (_, value) in named.items()}
    view = _choice(View, told, "view", View.RECORDS)
    content = _choice(Content, told, "content", Content.RAW)
    _check_together(told)
    _check_content(told, content, view)
    include_control = _flag(told, "includeControl")
    paths = tuple(path.strip() for path in told.get("path", "").split(",") if path.strip())
    return Options(
        paths=paths,
        topics=frozenset(_words(told["topics"])) if "topics" in told else None,
        topics_pattern=_pattern(told.get("topicsPattern")),
        assign=_assigned(told["assign"]) if "assign" in told else None,
        starting_offsets=_offsets(told, "startingOffsets", "earliest"),
        ending_offsets=_offsets(told, "endingOffsets", "latest"),
        starting_timestamp=_number(told, "startingTimestamp"),
        ending_timestamp=_number(told, "endingTimestamp"),
        is_committed=_is_committed(told.get("isolationLevel", "read_committed")),
        view=view,
        content=content,
        named=told.get(HOMES[content].option) if content is not Content.RAW else None,
        partition_count=_number(told, "partitionCount", least=1),
        columns=_columns(told, view, content, include_control=include_control),
        include_control=include_control,
        mode=_choice(Mode, told, "mode", Mode.PERMISSIVE),
        max_split_bytes=_number(told, "maxSplitBytes", least=1) or MAX_SPLIT_BYTES,
        fail_on_data_loss=_flag(told, "failOnDataLoss", default=True),
        ignore_high_watermark=_flag(told, "ignoreHighWatermark"),
    )


_NAMES = (
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
_KNOWN = {name.lower(): name for name in _NAMES}
_SELECTIONS = ("topics", "topicsPattern", "assign")


def _check_together(told: Mapping[str, str]) -> None:
    if not told.get("path", "").strip():
        raise ScanFailed("path: name at least one log directory")
    for names in (
        _SELECTIONS,
        ("startingOffsets", "startingTimestamp"),
        ("endingOffsets", "endingTimestamp"),
    ):
        chosen = [name for name in names if name in told]
        if len(chosen) > 1:
            raise ScanFailed(f"{' and '.join(chosen)} cannot be given together")


def _check_content(told: Mapping[str, str], content: Content, view: View) -> None:
    for each, home in HOMES.items():
        if home.option in told and content is not each:
            raise ScanFailed(f"{home.option}: only with content={each}")
    if content is Content.RAW and "partitionCount" in told:
        raise ScanFailed("partitionCount: only with content")
    if content is not Content.RAW and view is View.BATCHES:
        raise ScanFailed(f"view={view} shows no content")
    if content is not Content.RAW and _flag(told, "includeHeaders"):
        raise ScanFailed(f"content={content} has no headers")


def _columns(
    told: Mapping[str, str], view: View, content: Content, *, include_control: bool
) -> tuple[str, ...]:
    known = column_types(view, content)
    is_raw = view is not View.BATCHES and content is Content.RAW
    wanted = _words(told.get("columns", "")) or list(SPARK_COLUMNS if is_raw else known)
    if is_raw:
        wanted += ["headers"] if _flag(told, "includeHeaders") else []
        wanted += ["isControl"] if include_control else []
    for name in wanted:
        if name not in known:
            raise ScanFailed(f"columns: no column is called {name!r}; there are {', '.join(known)}")
    return tuple(dict.fromkeys(wanted))


def column_types(view: View, content: Content) -> dict[str, Any]:
    """Arrow's, of all columns that there are."""
    from odradek.spark_jobs.contents.columns import COLUMNS
    from odradek.spark_jobs.scan.columns import BATCH_COLUMNS, RECORD_COLUMNS

    if view is View.BATCHES:
        return BATCH_COLUMNS
    return RECORD_COLUMNS if content is Content.RAW else COLUMNS[content].types


def _offsets(told: Mapping[str, str], name: str, keyword: str) -> Offsets:
    text = told.get(name, keyword).strip()
    if text == keyword:
        return {}
    try:
        return {
            (topic, int(partition)): _offset(offset)
            for topic, partitions in json.loads(text).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError) as wrong:
        raise ScanFailed(f'{name}: not {keyword} or {{"topic": {{"0": 23}}}}: {text}') from wrong


def _offset(offset: Any) -> int:
    if type(offset) is not int or offset < EARLIEST:
        raise ValueError(offset)
    return offset


def _assigned(text: str) -> frozenset[tuple[str, int]]:
    try:
        return frozenset(
            (topic, int(partition))
            for topic, partitions in json.loads(text).items()
            for partition in partitions
        )
    except (ValueError, TypeError, AttributeError) as wrong:
        raise ScanFailed(f'assign: not of the form {{"topic": [0, 1]}}: {text}') from wrong


def _pattern(text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as wrong:
        raise ScanFailed(f"topicsPattern: {wrong}") from wrong
    return text


def _is_committed(level: str) -> bool:
    if level not in ("read_committed", "read_uncommitted"):
        raise ScanFailed(f"isolationLevel: read_committed or read_uncommitted, not {level}")
    return level == "read_committed"


def _number(told: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    if name not in told:
        return None
    text = told[name].strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
        raise ScanFailed(f"{name}: not a number of that kind: {text}")
    return int(text)


def _flag(told: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = told.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ScanFailed(f"{name}: true or false, not {text}")
    return text == "true"


Choice = TypeVar("Choice", bound=StrEnum)


def _choice(kind: type[Choice], told: Mapping[str, str], name: str, default: Choice) -> Choice:
    text = told.get(name, default.value)
    for each in kind:
        if each.value.lower() == text.strip().lower():
            return each
    raise ScanFailed(f"{name}: {', '.join(kind)}, not {text}")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
