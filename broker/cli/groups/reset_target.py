"""The targets to which committed offsets are reset.

earliest   the log start offset
latest     the log end offset
current    the committed offset, or the log end offset if nothing is committed
offset     a given offset
shift      a given number of records forward or back from the committed offset
time       the first record at or after a time, or the log end offset if there is none

An offset outside the log becomes the log start or end offset, and a line on standard error reports
it.  Otherwise a consumer would find the offset out of range and apply its auto.offset.reset.
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
    """``number`` is an offset, a count of records or milliseconds, depending on ``kind``."""

    kind: TargetKind
    number: int = 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Exactly one option is required; it sets ``target``, or ``file`` for the path of a plan."""
    group = parser.add_argument_group("target, exactly one of").add_mutually_exclusive_group(
        required=True
    )
    for kind, help_text in {
        TargetKind.EARLIEST: "the log start offsets",
        TargetKind.LATEST: "the log end offsets",
        TargetKind.CURRENT: "the committed offsets; the log end offset if nothing is committed",
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
        help="N records forward from the committed offset, or back if N is negative",
    )
    group.add_argument(
        "--to-datetime",
        dest="target",
        metavar="TIME",
        type=_parse_datetime,
        help="the first record at or after a time such as 2026-11-16T12:00:00.000 (UTC, unless "
        "it ends in a time zone such as +01:00), or @MILLISECONDS since 1970",
    )
    group.add_argument(
        "--by-duration",
        dest="target",
        metavar="PnDTnHnMnS",
        type=_parse_duration,
        help="the first record at or after this duration ago: P7D, PT12H, P1DT2H30M",
    )
    group.add_argument(
        "--from-file",
        dest="file",
        metavar="FILE",
        help="the offsets in a CSV file: topic,partition,offset or, for several groups, "
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
    """Resolves a target to offsets in the current logs, for a group."""

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
        """Return ``requested`` with each offset limited to the log of its partition."""
        starts = partitions.log_start_offsets(self.admin, requested, self.timeout_s)
        ends = self._log_end_offsets(list(requested))
        offsets = {}
        for partition, offset in requested.items():
            offsets[partition] = min(max(offset, starts[partition]), ends[partition])
            if offsets[partition] != offset:
                bound = "below the log start" if offset < starts[partition] else "above the log end"
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
