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
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.groups.times import parse_duration_ago_ms, parse_time_ms
from odradek.broker.cli.partitions import Offsets, TopicAndPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class TargetKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """``number`` is an offset, a count of records or milliseconds, as ``kind`` says."""

    kind: TargetKind
    number: int = 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """One of them must be given: ``target``, or ``file`` for a plan of its own."""
    group = parser.add_argument_group("where to, one of").add_mutually_exclusive_group(
        required=True
    )
    for kind, help_text in {
        TargetKind.EARLIEST: "where the logs start",
        TargetKind.LATEST: "where the logs end",
        TargetKind.CURRENT: "what is committed; where nothing is, the end",
    }.items():
        group.add_argument(
            f"--to-{kind.value}",
            dest="target",
            action="store_const",
            const=ResetTarget(kind),
            help=help_text,
        )
    group.add_argument(
        "--to-offset", dest="target", metavar="N", type=_parse_offset, help="this offset"
    )
    group.add_argument(
        "--shift-by",
        dest="target",
        metavar="N",
        type=_parse_shift,
        help="N records on from what is committed, or back if N is negative",
    )
    group.add_argument(
        "--to-datetime",
        dest="target",
        metavar="TIME",
        type=_parse_datetime,
        help="the first record of a time such as 2026-11-16T12:00:00.000, or later; UTC, unless "
        "it ends in a zone such as +01:00; or @MILLISECONDS since 1970",
    )
    group.add_argument(
        "--by-duration",
        dest="target",
        metavar="PnDTnHnMnS",
        type=_parse_duration,
        help="the first record of so long ago, or later: P7D, PT12H, P1DT2H30M",
    )
    group.add_argument(
        "--from-file",
        dest="file",
        metavar="FILE",
        help="what its lines say: topic,partition,offset or, for several groups, "
        "group,topic,partition,offset; - is standard input",
    )


def _parse_offset(argument: str) -> ResetTarget:
    return ResetTarget(TargetKind.OFFSET, _parse_int(argument))


def _parse_shift(argument: str) -> ResetTarget:
    return ResetTarget(TargetKind.SHIFT, _parse_int(argument))


def _parse_int(argument: str) -> int:
    try:
        return int(argument)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{argument!r} is not a number of records") from error


def _parse_datetime(argument: str) -> ResetTarget:
    return ResetTarget(TargetKind.TIME, parse_time_ms(argument))


def _parse_duration(argument: str) -> ResetTarget:
    return ResetTarget(TargetKind.TIME, parse_duration_ago_ms(argument))


@dataclass(frozen=True, slots=True)
class TargetResolver:
    """Finds the offsets of a target for a group, in the logs as they are now."""

    admin: AdminClient
    group: str
    timeout_s: float

    def resolve(
        self, target: ResetTarget, topic_partitions: list[TopicAndPartition], committed: Offsets
    ) -> Offsets:
        match target.kind:
            case TargetKind.EARLIEST:
                return partitions.log_start_offsets(self.admin, topic_partitions, self.timeout_s)
            case TargetKind.LATEST:
                return self._log_end_offsets(topic_partitions)
            case TargetKind.CURRENT:
                with_offset = {
                    each: committed[each] for each in topic_partitions if each in committed
                }
                return with_offset | self._log_end_offsets(
                    [each for each in topic_partitions if each not in with_offset]
                )
            case TargetKind.OFFSET:
                return self.clamp_to_logs(dict.fromkeys(topic_partitions, target.number))
            case TargetKind.SHIFT:
                return self.clamp_to_logs(self._shift(topic_partitions, committed, target.number))
            case TargetKind.TIME:
                return self._offsets_for_time(topic_partitions, target.number)

    def clamp_to_logs(self, requested: Offsets) -> Offsets:
        """``wanted``, but no offset outside the log of its partition."""
        starts = partitions.log_start_offsets(self.admin, requested, self.timeout_s)
        ends = self._log_end_offsets(list(requested))
        offsets = {}
        for partition, offset in requested.items():
            offsets[partition] = min(max(offset, starts[partition]), ends[partition])
            if offsets[partition] != offset:
                bound = "before the start" if offset < starts[partition] else "past the end"
                self._warn(
                    f"{partition}: offset {offset} is {bound} offset; using {offsets[partition]}"
                )
        return offsets

    def _offsets_for_time(
        self, topic_partitions: list[TopicAndPartition], timestamp_ms: int
    ) -> Offsets:
        offsets = partitions.offsets_for_time(
            self.admin, topic_partitions, self.timeout_s, timestamp_ms=timestamp_ms
        )
        ends = self._log_end_offsets([each for each in topic_partitions if each not in offsets])
        for partition, end in ends.items():
            self._warn(
                f"{partition}: no record at or after that time; using the log end offset {end}"
            )
        return offsets | ends

    def _log_end_offsets(self, topic_partitions: list[TopicAndPartition]) -> Offsets:
        return partitions.log_end_offsets(self.admin, topic_partitions, self.timeout_s)

    def _shift(
        self, topic_partitions: list[TopicAndPartition], committed: Offsets, distance: int
    ) -> Offsets:
        for partition in topic_partitions:
            if partition not in committed:
                raise CommandFailed(f"{self.group}: {partition}: no committed offset to shift from")
        return {partition: committed[partition] + distance for partition in topic_partitions}

    def _warn(self, text: str) -> None:
        print(f"odradek: {self.group}: {text}", file=sys.stderr)
