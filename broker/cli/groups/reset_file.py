"""Reads and writes the plan of a reset as CSV, in the format of Kafka's kafka-consumer-groups.

    orders,0,120               topic, partition, offset: for the one group that is named
    billing,orders,0,120       the same for several groups

All lines of a file have the same form.  Empty lines are skipped; ``-`` is standard input.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.partitions import Offsets, TopicAndPartition

COLUMNS_WITHOUT_GROUP, COLUMNS_WITH_GROUP = 3, 4
OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1


def read_plans(path: str, groups: Sequence[str]) -> dict[str, Offsets]:
    """Return the plan of each group; lines without a group belong to the one in ``groups``."""
    plans: dict[str, Offsets] = {}
    width = 0
    for number, fields in _read_rows(path):
        width = width or len(fields)
        group, topic_partition, offset = _parse_row(fields, width, location=f"{path} line {number}")
        if group is None and len(groups) != 1:
            raise CommandFailed(f"{path}: the lines name no group: give exactly one group")
        plan = plans.setdefault(groups[0] if group is None else group, {})
        plan[topic_partition] = offset
    if not plans:
        raise CommandFailed(f"{path}: the file is empty")
    return plans


def write_plans(plans: Iterable[tuple[str, Offsets]], *, with_group: bool) -> None:
    """Write to standard output."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for group, plan in plans:
        for topic_partition, offset in sorted(plan.items()):
            writer.writerow([*([group] if with_group else []), *topic_partition, offset])


def _read_rows(path: str) -> list[tuple[int, list[str]]]:
    """Return the rows with their line numbers, which start at 1."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
        reader = csv.reader(text.splitlines(), skipinitialspace=True, strict=True)
        return [(reader.line_num, fields) for fields in reader if any(map(str.strip, fields))]
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise CommandFailed(f"{path}: invalid CSV: {error}") from error


def _parse_row(
    fields: list[str], width: int, *, location: str
) -> tuple[str | None, TopicAndPartition, int]:
    """The group is None if the line has none."""
    if len(fields) == width and width in (COLUMNS_WITHOUT_GROUP, COLUMNS_WITH_GROUP):
        *group, topic, partition, offset = (field.strip() for field in fields)
        if (
            topic
            and _is_number_up_to(partition, PARTITION_MAX)
            and _is_number_up_to(offset, OFFSET_MAX)
        ):
            return (
                (group[0] if group else None),
                TopicAndPartition(topic, int(partition)),
                int(offset),
            )
    raise CommandFailed(
        f"{location}: must be topic,partition,offset or group,topic,partition,offset, "
        "the same in all lines"
    )


def _is_number_up_to(field: str, maximum: int) -> bool:
    return field.isdecimal() and int(field) <= maximum
