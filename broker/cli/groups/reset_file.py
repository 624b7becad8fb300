"""A plan of offsets as lines of CSV, as Kafka's own tool reads and writes them.

    orders,0,120               topic, partition, offset: of the one group that is named
    billing,orders,0,120       the same for several groups

All lines of a file have the same form.  Empty lines are passed over; ``-`` is standard input.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.partitions import Offsets, Place

OF_ONE_GROUP, OF_SEVERAL = 3, 4
OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1


def read_plans(path: str, groups: Sequence[str]) -> dict[str, Offsets]:
    """For each group; ``groups`` are those that were named, of which lines may need the one."""
    plans: dict[str, Offsets] = {}
    width = 0
    for number, fields in _lines(path):
        width = width or len(fields)
        group, place, offset = _parsed(fields, width, where=f"{path} line {number}")
        if group is None and len(groups) != 1:
            raise CommandFailed(f"{path} names no groups: name one, to which its lines belong")
        plan = plans.setdefault(groups[0] if group is None else group, {})
        plan[place] = offset
    if not plans:
        raise CommandFailed(f"{path}: nothing is in it")
    return plans


def write_plans(plans: Iterable[tuple[str, Offsets]], *, with_group: bool) -> None:
    """To standard output."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for group, plan in plans:
        for place, offset in sorted(plan.items()):
            writer.writerow([*([group] if with_group else []), *place, offset])


def _lines(path: str) -> list[tuple[int, list[str]]]:
    """Numbered from 1."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
        reader = csv.reader(text.splitlines(), skipinitialspace=True, strict=True)
        return [(reader.line_num, fields) for fields in reader if any(map(str.strip, fields))]
    except OSError as failure:
        raise CommandFailed(f"{path}: {failure.strerror}") from failure
    except (UnicodeDecodeError, csv.Error) as failure:
        raise CommandFailed(f"{path}: is not CSV: {failure}") from failure


def _parsed(fields: list[str], width: int, *, where: str) -> tuple[str | None, Place, int]:
    """The group is None if the line has none."""
    if len(fields) == width and width in (OF_ONE_GROUP, OF_SEVERAL):
        *before, topic, partition, offset = (field.strip() for field in fields)
        if topic and _is_within(partition, PARTITION_MAX) and _is_within(offset, OFFSET_MAX):
            return (before[0] if before else None), Place(topic, int(partition)), int(offset)
    raise CommandFailed(
        f"{where}: must be topic,partition,offset or group,topic,partition,offset, "
        "the same in all lines"
    )


def _is_within(written: str, maximum: int) -> bool:
    return written.isdecimal() and int(written) <= maximum
