"""Where are offsets reset to?

earliest   where the log starts
latest     where it ends
current    what is committed; where nothing is, the end
offset     this one
shift      so many from what is committed, forward or back
time       the first record of that time or later; the end, where there is none

An offset outside the log becomes the log's start or end, and a line on standard error says so: a
consumer would not find it, and would go where its own auto.offset.reset sends it.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from odradek.broker.cli import partitions
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.groups.times import ago_ms, time_ms
from odradek.broker.cli.partitions import Offsets, Place

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class Kind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Target:
    """``number`` is an offset, a count of records or milliseconds, as ``kind`` says."""

    kind: Kind
    number: int = 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """One of them must be given: ``target``, or ``file`` for a plan of its own."""
    group = parser.add_argument_group("where to, one of").add_mutually_exclusive_group(
        required=True
    )
    for kind, help_text in {
        Kind.EARLIEST: "where the logs start",
        Kind.LATEST: "where the logs end",
        Kind.CURRENT: "what is committed; where nothing is, the end",
    }.items():
        group.add_argument(
            f"--to-{kind.value}",
            dest="target",
            action="store_const",
            const=Target(kind),
            help=help_text,
        )
    group.add_argument(
        "--to-offset", dest="target", metavar="N", type=_to_offset, help="this offset"
    )
    group.add_argument(
        "--shift-by",
        dest="target",
        metavar="N",
        type=_shift_by,
        help="N records on from what is committed, or back if N is negative",
    )
    group.add_argument(
        "--to-datetime",
        dest="target",
        metavar="TIME",
        type=_to_datetime,
        help="the first record of a time such as 2026-11-16T12:00:00.000, or later; UTC, unless "
        "it ends in a zone such as +01:00; or @MILLISECONDS since 1970",
    )
    group.add_argument(
        "--by-duration",
        dest="target",
        metavar="PnDTnHnMnS",
        type=_by_duration,
        help="the first record of so long ago, or later: P7D, PT12H, P1DT2H30M",
    )
    group.add_argument(
        "--from-file",
        dest="file",
        metavar="FILE",
        help="what its lines say: topic,partition,offset or, for several groups, "
        "group,topic,partition,offset; - is standard input",
    )


def _to_offset(written: str) -> Target:
    return Target(Kind.OFFSET, _number(written))


def _shift_by(written: str) -> Target:
    return Target(Kind.SHIFT, _number(written))


def _number(written: str) -> int:
    try:
        return int(written)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(f"{written!r} is not a number of records") from wrong


def _to_datetime(written: str) -> Target:
    return Target(Kind.TIME, time_ms(written))


def _by_duration(written: str) -> Target:
    return Target(Kind.TIME, ago_ms(written))


@dataclass(frozen=True, slots=True)
class Resolver:
    """Finds the offsets of a target for a group, in the logs as they are now."""

    admin: AdminClient
    group: str
    timeout_s: float

    def offsets(self, target: Target, places: list[Place], committed: Offsets) -> Offsets:
        match target.kind:
            case Kind.EARLIEST:
                return partitions.starts(self.admin, places, self.timeout_s)
            case Kind.LATEST:
                return self._ends(places)
            case Kind.CURRENT:
                there = {place: committed[place] for place in places if place in committed}
                return there | self._ends([place for place in places if place not in there])
            case Kind.OFFSET:
                return self.within_logs(dict.fromkeys(places, target.number))
            case Kind.SHIFT:
                return self.within_logs(self._shifted(places, committed, target.number))
            case Kind.TIME:
                return self._from_time(places, target.number)

    def within_logs(self, wanted: Offsets) -> Offsets:
        """``wanted``, but no offset outside the log of its partition."""
        starts = partitions.starts(self.admin, wanted, self.timeout_s)
        ends = self._ends(list(wanted))
        found = {}
        for place, offset in wanted.items():
            found[place] = min(max(offset, starts[place]), ends[place])
            if found[place] != offset:
                side = "before the start" if offset < starts[place] else "past the end"
                self._note(f"{place}: {offset} is {side} of the log; {found[place]} is taken")
        return found

    def _from_time(self, places: list[Place], timestamp_ms: int) -> Offsets:
        found = partitions.first_from(self.admin, places, self.timeout_s, timestamp_ms=timestamp_ms)
        later = self._ends([place for place in places if place not in found])
        for place, end in later.items():
            self._note(f"{place}: no record is of that time or later; its end, {end}, is taken")
        return found | later

    def _ends(self, places: list[Place]) -> Offsets:
        return partitions.ends(self.admin, places, self.timeout_s)

    def _shifted(self, places: list[Place], committed: Offsets, distance: int) -> Offsets:
        for place in places:
            if place not in committed:
                raise CommandFailed(f"{self.group}: {place}: nothing is committed to shift from")
        return {place: committed[place] + distance for place in places}

    def _note(self, text: str) -> None:
        print(f"odradek: {self.group}: {text}", file=sys.stderr)
