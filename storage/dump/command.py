"""Prints what is in the files of a log, and finds what is damaged in them.

    python -m odradek.storage.dump PATH ...

A path is a file, a partition's directory or a log directory.  Nothing is changed, not even by
opening: it may be run beside a broker, whose last batch it may then find half written.

    exit code 0   nothing is damaged
              1   something is; each piece of damage is told with its file and position
              2   the command itself makes no sense
            141   whoever read the output has gone, as with ``| head``

Text goes to standard output, damage to standard error; with ``--json`` both are lines of JSON on
standard output (facts.py says which).

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
from odradek.storage.dump.facts import OFFSET_MAX, Decoding, Fact, Facts, Wishes, damage, note
from odradek.storage.dump.reading import SegmentFile, Unreadable, segment_file, segment_files
from odradek.storage.paths import Content, directory_named

SOUND, DAMAGED = 0, 1
UNREAD, INTERRUPTED = 128 + 13, 128 + 2  # what a shell says of SIGPIPE and SIGINT


def main(arguments: Sequence[str] | None = None, *, program: str | None = None) -> int:
    parser = _parser(program)
    asked = parser.parse_args(arguments)
    try:
        targets = [target for path in asked.paths for target in _targets(path)]
    except _NothingToDump as nothing:
        parser.error(str(nothing))
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that lacks a character gets its number instead of a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    printer = _Printer(as_json=asked.json, is_quiet=asked.quiet)
    try:
        for target in targets:
            printer.show(target.path, _facts(target, _wishes(asked)))
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered would fail again when the interpreter flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except KeyboardInterrupt:
        return INTERRUPTED
    return DAMAGED if printer.damages else SOUND


def _parser(program: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program or "python -m odradek.storage.dump",
        description="Print what is in the files of a log, and find what is damaged in them.",
        epilog="Exit code: 0 if nothing is damaged, 1 if something is, 2 for a wrong command.",
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
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each fact")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="also compare indexes with their segments, and read every record",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but damage")
    parser.add_argument(
        "--decode",
        choices=[each.value for each in Decoding],
        metavar="WHAT",
        help="what the records are: offsets (of __consumer_offsets), transactions (of "
        "__transaction_state), both of which imply --records; none (in particular); or auto, the "
        "default: what the name of the directory says",
    )
    _add_limits(parser)
    return parser


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from-offset", type=_natural, default=0, metavar="N")
    parser.add_argument(
        "--to-offset",
        type=_natural,
        default=OFFSET_MAX,
        metavar="N",
        help="print only what is about offsets from the one to the other, both included",
    )
    parser.add_argument(
        "--max-bytes", type=_natural, metavar="N", help="read no more of each file than this"
    )


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise argparse.ArgumentTypeError(f"not a number of that kind: {text!r}")
    return int(text)


def _wishes(asked: argparse.Namespace) -> Wishes:
    decoding = Decoding(asked.decode or Decoding.AUTO)
    return Wishes(
        records=asked.records or decoding in (Decoding.OFFSETS, Decoding.TRANSACTIONS),
        verify=asked.verify,
        decoding=decoding,
        first_offset=asked.from_offset,
        last_offset=asked.to_offset,
        bytes_max=asked.max_bytes,
    )


# What is there


class _NothingToDump(Exception):
    """A path that leads to nothing of ours."""


@dataclass(frozen=True, slots=True)
class _Target:
    """A file to dump; ``segment`` is None for those that are known by their whole name."""

    path: Path
    segment: SegmentFile | None = None


def _targets(path: Path) -> list[_Target]:
    try:
        if path.is_dir():
            found = list(_in_directory(path))
            if not found and directory_named(path.absolute().name) is None:
                raise _NothingToDump(f"{path} holds no files of a log")
            return found
        if not S_ISREG(path.stat().st_mode):
            raise _NothingToDump(f"{path} is neither a file nor a directory")
        if path.name in TEXT_FILES:
            return [_Target(path)]
        segment = segment_file(path)
    except OSError as failure:
        raise _NothingToDump(f"{path}: {failure.strerror}") from failure
    if segment is None:
        raise _NothingToDump(f"{path}: no file of a log has such a name")
    return [_Target(path, segment)]


def _in_directory(directory: Path) -> Iterator[_Target]:
    """A log directory's own files, or a partition's, then the partitions in it."""
    names = sorted(os.listdir(directory))
    yield from (_Target(directory / name) for name in TEXT_FILES if name in names)
    yield from (_Target(file.path, file) for file in segment_files(directory, names))
    for name in names:
        if directory_named(name) is not None and (directory / name).is_dir():
            yield from _in_directory(directory / name)


def _facts(target: _Target, wishes: Wishes) -> Facts:
    """A file that cannot be read is damage too, unless it has been removed in the meantime."""
    try:
        if target.segment is None:
            yield from checkpoints.dump_text(target.path)
        elif target.segment.content is Content.BATCHES:
            yield from segments.dump(target.segment, wishes)
        elif target.segment.content is Content.PRODUCER_SNAPSHOT:
            yield from checkpoints.dump_snapshot(target.segment, wishes)
        else:
            yield from indexes.dump(target.segment, wishes)
    except FileNotFoundError:
        yield note(f"{target.path} is gone")
    except OSError as failure:
        yield damage(f"cannot be read: {failure.strerror}")
    except Unreadable as reason:
        yield damage(str(reason))


class _Printer:
    """Writes facts as they come, and counts the damages."""

    def __init__(self, *, as_json: bool, is_quiet: bool) -> None:
        self._as_json = as_json
        self._is_quiet = is_quiet
        self.damages = 0

    def show(self, path: Path, facts: Facts) -> None:
        for fact in facts:
            is_damage = fact.kind == "damage"
            self.damages += is_damage
            if is_damage or not self._is_quiet:
                self._write(Fact(fact.kind, {"file": str(path), **fact.values}))

    def _write(self, fact: Fact) -> None:
        if self._as_json:
            sys.stdout.write(json.dumps({"kind": fact.kind, **fact.values}) + "\n")
        elif fact.kind == "damage":
            # In the order of events where both lead to the same terminal.
            sys.stdout.flush()
            sys.stderr.write(text.line(fact) + "\n")
        else:
            sys.stdout.write(text.line(fact) + "\n")
