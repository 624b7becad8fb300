"""Prints the content of the files of a log, and reports damage in them.  Kafka: DumpLogSegments.

    python -m odradek.storage.dump PATH ...

A path is a file, a partition's directory or a log directory.  The command changes nothing and opens
files for reading only.  It may run while a broker is running; it may then see the broker's last
batch half written.

    exit code 0   no damage
              1   damage was found; each finding names its file and position
              2   the command line is invalid
            141   the reader of the output is gone, as with ``| head``

Text goes to standard output, damage to standard error; with ``--json`` both are lines of JSON on
standard output (items.py lists them).

Owner: the process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from stat import S_ISREG

from odradek.storage.dump import checkpoints, indexes, segments, text
from odradek.storage.dump.checkpoints import TEXT_FILES
from odradek.storage.dump.file_reader import (
    SegmentFile,
    UnreadableFile,
    find_segment_file,
    list_segment_files,
)
from odradek.storage.dump.items import (
    OFFSET_MAX,
    Decoding,
    DumpItem,
    DumpItems,
    DumpOptions,
    damage_item,
    note_item,
)
from odradek.storage.paths import LogFileType, parse_directory_name

EXIT_OK, EXIT_DAMAGED = 0, 1
EXIT_BROKEN_PIPE, EXIT_INTERRUPTED = 128 + 13, 128 + 2  # as a shell reports SIGPIPE and SIGINT


def main(arguments: Sequence[str] | None = None, *, program: str | None = None) -> int:
    parser = _parser(program)
    options = parser.parse_args(arguments)
    try:
        targets = [target for path in options.paths for target in _find_targets(path)]
    except _NothingToDump as error:
        parser.error(str(error))
    if isinstance(sys.stdout, TextIOWrapper):
        # Escape characters that the terminal's encoding lacks, instead of raising an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    printer = _Printer(as_json=options.json, is_quiet=options.quiet)
    try:
        for target in targets:
            printer.show(target.path, _dump_target(target, _dump_options(options)))
        sys.stdout.flush()
    except BrokenPipeError:
        # Buffered output would fail again when the interpreter flushes it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_DAMAGED if printer.damage_count else EXIT_OK


def _parser(program: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program or "python -m odradek.storage.dump",
        description="Print the content of the files of a log, and report damage in them.",
        epilog="Exit code: 0 without damage, 1 with damage, 2 for an invalid command line.",
    )
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="a segment, index, snapshot or checkpoint file, a partition's directory, or a log "
        "directory",
    )
    parser.add_argument("--records", action="store_true", help="print the records of each batch")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each item")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="also check indexes against their segments, and read every record",
    )
    parser.add_argument("--quiet", action="store_true", help="print only damage")
    parser.add_argument(
        "--decode",
        choices=[decoding.value for decoding in Decoding],
        metavar="FORMAT",
        help="how to decode records: offsets (as in __consumer_offsets) or transactions (as in "
        "__transaction_state), both of which imply --records; none; or auto, the default: by the "
        "topic in the name of the directory",
    )
    _add_limits(parser)
    return parser


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from-offset", type=_parse_natural, default=0, metavar="N")
    parser.add_argument(
        "--to-offset",
        type=_parse_natural,
        default=OFFSET_MAX,
        metavar="N",
        help="print only batches, records and entries with offsets in this range, inclusive",
    )
    parser.add_argument(
        "--max-bytes", type=_parse_natural, metavar="N", help="read at most N bytes of each file"
    )


def _parse_natural(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number of at most 19 digits")
    return int(text)


def _dump_options(arguments: argparse.Namespace) -> DumpOptions:
    decoding = Decoding(arguments.decode or Decoding.AUTO)
    return DumpOptions(
        records=arguments.records or decoding in (Decoding.OFFSETS, Decoding.TRANSACTIONS),
        verify=arguments.verify,
        decoding=decoding,
        first_offset=arguments.from_offset,
        last_offset=arguments.to_offset,
        bytes_max=arguments.max_bytes,
    )


# Files to dump


class _NothingToDump(Exception):
    """The path is not a file of a log, or a directory with such files."""


@dataclass(frozen=True, slots=True)
class _Target:
    """A file to dump; ``segment`` is None for ``TEXT_FILES``."""

    path: Path
    segment: SegmentFile | None = None


def _find_targets(path: Path) -> list[_Target]:
    try:
        if path.is_dir():
            targets = list(_targets_in_directory(path))
            if not targets and parse_directory_name(path.absolute().name) is None:
                raise _NothingToDump(f"{path}: no log files in this directory")
            return targets
        if not S_ISREG(path.stat().st_mode):
            raise _NothingToDump(f"{path}: neither a regular file nor a directory")
        if path.name in TEXT_FILES:
            return [_Target(path)]
        segment = find_segment_file(path)
    except OSError as error:
        raise _NothingToDump(f"{path}: {error.strerror}") from error
    if segment is None:
        raise _NothingToDump(f"{path}: not the name of a log file")
    return [_Target(path, segment)]


def _targets_in_directory(directory: Path) -> Iterator[_Target]:
    """Return the files of the directory, then those of the partitions in it."""
    names = sorted(os.listdir(directory))
    yield from (_Target(directory / name) for name in TEXT_FILES if name in names)
    yield from (_Target(file.path, file) for file in list_segment_files(directory, names))
    for name in names:
        if parse_directory_name(name) is not None and (directory / name).is_dir():
            yield from _targets_in_directory(directory / name)


def _dump_target(target: _Target, options: DumpOptions) -> DumpItems:
    """Report a file that cannot be read as damage, unless it was deleted in the meantime."""
    try:
        if target.segment is None:
            yield from checkpoints.dump_text(target.path)
        elif target.segment.file_type is LogFileType.LOG:
            yield from segments.dump(target.segment, options)
        elif target.segment.file_type is LogFileType.PRODUCER_SNAPSHOT:
            yield from checkpoints.dump_snapshot(target.segment, options)
        else:
            yield from indexes.dump(target.segment, options)
    except FileNotFoundError:
        yield note_item(f"{target.path} no longer exists")
    except OSError as error:
        yield damage_item(f"cannot be read: {error.strerror}")
    except UnreadableFile as reason:
        yield damage_item(str(reason))


class _Printer:
    """Writes items as they come, and counts damage."""

    def __init__(self, *, as_json: bool, is_quiet: bool) -> None:
        self._as_json = as_json
        self._is_quiet = is_quiet
        self.damage_count = 0

    def show(self, path: Path, items: DumpItems) -> None:
        for item in items:
            is_damage = item.kind == "damage"
            self.damage_count += is_damage
            if is_damage or not self._is_quiet:
                self._write(DumpItem(item.kind, {"file": str(path), **item.values}))

    def _write(self, item: DumpItem) -> None:
        if self._as_json:
            sys.stdout.write(json.dumps({"kind": item.kind, **item.values}) + "\n")
        elif item.kind == "damage":
            # Keep the order if both streams go to the same terminal.
            sys.stdout.flush()
            sys.stderr.write(text.format_line(item) + "\n")
        else:
            sys.stdout.write(text.format_line(item) + "\n")
