"""The dump command: its arguments, output and exit codes. It only reads."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Header, Record
from odradek.storage import leader_epoch_file_cache, meta_properties, offset_checkpoints
from odradek.storage.dump import command, file_reader, items
from odradek.storage.dump.text import format_line
from odradek.storage.meta_properties import MetaProperties
from tests.support import logs
from tests.support.batches import batch_of
from tests.support.dumps import dumped, printed, segment
from tests.support.recorded_directories import LEFT, RecordedDirectory
from tests.support.recorded_segments import SEGMENTS

NOON = 1_600_000_000_000

#: The keys of each kind of item besides kind and file. Programs rely on these names.
KEYS = {
    "file": {"content", "size_bytes", "base_offset"},
    "batch": {
        "position",
        "size_bytes",
        "magic",
        "base_offset",
        "last_offset",
        "count",
        "codec",
        "timestamp_type",
        "base_timestamp",
        "max_timestamp",
        "delete_horizon_ms",
        "partition_leader_epoch",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "last_sequence",
        "is_transactional",
        "is_control",
        "checksum",
        "is_valid",
    },
    "record": {"position", "offset", "timestamp", "key", "value", "headers"},
    "index_entry": {"slot", "offset", "log_position"},
    "time_index_entry": {"slot", "timestamp", "offset"},
    "aborted_transaction": {
        "slot",
        "version",
        "producer_id",
        "first_offset",
        "last_offset",
        "last_stable_offset",
    },
    "producer": {
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_offset",
        "offset_delta",
        "last_timestamp",
        "coordinator_epoch",
        "transaction_first_offset",
    },
    "leader_epoch": {"epoch", "start_offset"},
    "partition_offset": {"topic", "partition", "offset"},
    "partition_metadata": {"topic_id"},
    "meta_properties": {"properties"},
    "clean_shutdown": {"broker_epoch"},
    "line": {"line", "text"},
    "room": {"position", "size_bytes"},
    "note": {"position", "why"},
    "damage": {"position", "line", "why"},
}
OPTIONAL_RECORD_KEYS = {"control", "decoded"}


@pytest.fixture
def directory(tmp_path):
    """A valid partition in a log directory."""
    meta_properties.write(tmp_path, MetaProperties(1, "c"))
    partition = tmp_path / "events-0"
    log = logs.opened(partition)
    logs.append(log, b"a", b"b")
    logs.append(log, b"c")
    log.close(now_ms=logs.NOW_MS)
    return partition


def run(*arguments, **options):
    command = [sys.executable, "-m", "odradek.storage.dump", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_dump_runs_as_a_command(directory):
    completed = run("--records", directory)
    assert completed.returncode == 0
    assert completed.stderr == ""
    assert (
        completed.stdout.splitlines()[0]
        == f"{directory}/leader-epoch-checkpoint: leader epochs, 8 bytes"
    )
    assert 'key null  value "c"' in completed.stdout


def test_damage_is_printed_to_stderr_and_sets_the_exit_code(directory):
    log = directory / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    completed = run(directory)
    assert completed.returncode == 1
    assert re.fullmatch(
        rf"damage: {log}, position \d+: a batch of \d+ bytes is truncated after \d+ bytes\n",
        completed.stderr,
    )
    assert "damage: " not in completed.stdout


def test_json_output_is_all_on_stdout(directory):
    log = directory / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    completed = run("--json", directory)
    assert completed.returncode == 1
    assert completed.stderr == ""
    kinds = [json.loads(line)["kind"] for line in completed.stdout.splitlines()]
    assert "damage" in kinds
    assert "batch" in kinds


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--no-such-wish", "."],
        ["--decode", "everything", "."],
        ["--from-offset", "-1", "."],
        ["--max-bytes", "many", "."],
        ["no-such-file.log"],
        [__file__],
        [Path(__file__).parent],
    ],
)
def test_invalid_arguments_are_rejected(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    assert output.err.startswith("usage: ")
    assert output.out == ""


def test_invalid_arguments_have_exit_code_2():
    completed = run("no-such-file.log")
    assert completed.returncode == 2
    assert completed.stderr.endswith("error: no-such-file.log: No such file or directory\n")


def test_closed_stdout_is_not_an_error(tmp_path):
    batches = [batch_of(b"x" * 100, base_offset=offset) for offset in range(5_000)]
    log = segment(tmp_path, 0, *batches)
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek.storage.dump", log],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == command.EXIT_BROKEN_PIPE


def test_characters_outside_the_terminal_encoding_are_escaped(tmp_path):
    log = segment(tmp_path, 0, batch_of("\u20ac".encode()))
    completed = run("--records", log, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert completed.returncode == 0
    assert '"\\u20ac"' in completed.stdout


def test_quiet_prints_nothing_but_damage(directory):
    assert printed("--quiet", "--records", directory).output == ""
    log = directory / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    output = printed("--quiet", directory)
    assert (output.output, output.exit_code) == ("", 1)
    assert [item["kind"] for item in dumped("--quiet", directory).facts] == ["damage"]


def test_log_directory_is_dumped_with_all_its_partitions(tmp_path):
    RecordedDirectory.unpack("transactions-stopped", tmp_path)
    recorded = tmp_path / LEFT
    files = {Path(item["file"]) for item in dumped(recorded).facts}
    expected = {path for path in recorded.rglob("*") if path.is_file() and path.name != ".lock"}
    assert files == expected


def test_files_are_dumped_in_the_order_of_offsets(tmp_path):
    for offset in (100, 5, 20):
        segment(tmp_path, offset, batch_of(b"x", base_offset=offset))
        (tmp_path / f"{offset:020}.index").write_bytes(b"")
    names = [Path(item["file"]).name for item in dumped(tmp_path).facts if item["kind"] == "file"]
    assert names == [
        f"{offset:020}{ending}" for offset in (5, 20, 100) for ending in (".log", ".index")
    ]


def test_unknown_files_are_ignored(directory):
    (directory / "notes.txt").write_text("?")
    (directory / f"{0:020}.log.bak").write_text("?")
    (directory / "leader-epoch-checkpoint.tmp").write_text("?")
    (directory / "00000000000000000000-0000000001.checkpoint").write_text("?")
    assert dumped("--verify", directory).exit_code == 0


def test_empty_partition_is_not_damage(tmp_path):
    (tmp_path / "events-0").mkdir()
    assert dumped(tmp_path / "events-0").facts == []


def test_dump_changes_no_file(tmp_path):
    RecordedDirectory.unpack("codecs-killed", tmp_path)
    recorded = tmp_path / LEFT
    before = state_of(recorded)
    for path in (recorded, *recorded.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    dumped("--verify", "--records", recorded)
    for path in (recorded, *recorded.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert state_of(recorded) == before


def state_of(directory):
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_size, path.stat().st_blocks)
        for path in (directory, *directory.rglob("*"))
    }


def test_unreadable_file_is_damage(directory):
    log = directory / f"{0:020}.log"
    log.unlink()
    log.mkdir()
    dump = dumped(directory)
    assert [(name, reason) for name, _, reason in dump.damages] == [
        (log.name, "not a regular file")
    ]


def test_file_deleted_during_the_dump_is_not_damage(directory):
    log = directory / f"{0:020}.log"
    log.unlink()
    log.symlink_to("gone")
    dump = dumped(directory)
    assert dump.exit_code == 0
    assert dump.of_kind("note")[0]["why"] == f"{log} no longer exists"


def test_relative_path_inside_the_directory_is_accepted(tmp_path, monkeypatch):
    log = segment(tmp_path / "__consumer_offsets-0", 0, batch_of(Record(0, 0, b"\0\2\0\1g", None)))
    monkeypatch.chdir(log.parent)
    assert "GroupMetadataKey v2" in printed("--records", log.name).output


def test_json_keys_are_the_documented_ones(tmp_path):
    dump = [*items_of_every_kind(tmp_path)]
    assert {item["kind"] for item in dump} == set(KEYS)
    for item in dump:
        names = item.keys() - {"kind", "file"}
        if item["kind"] == "record":
            names -= OPTIONAL_RECORD_KEYS
        assert names == KEYS[item["kind"]], item


def test_every_kind_of_item_has_a_text_line_and_is_documented(tmp_path):
    for item in items_of_every_kind(tmp_path):
        output = format_line(items.DumpItem(item["kind"], item))
        assert "\n" not in output
        assert re.search(rf"^    .*\b{item['kind']}\b", items.__doc__, re.MULTILINE)


def items_of_every_kind(tmp_path):
    RecordedDirectory.unpack("transactions-stopped", tmp_path)
    recorded = tmp_path / LEFT
    mixed = recorded / "mixed-0"
    damaged = mixed / leader_epoch_file_cache.FILE_NAME
    yield from dumped("--records", recorded).facts
    damaged.write_text("0\nx\n")
    offset_checkpoints.CLEANER_OFFSETS.write(recorded, {logs.PARTITION: 4})
    with max(mixed.glob("*.index")).open("ab") as index:
        index.write(bytes(80))
    yield from dumped("--max-bytes", "500", recorded).facts


def test_text_has_one_line_per_batch_and_indented_lines_for_records(tmp_path):
    first = batch_of(
        Record(0, NOON, b"k", None, (Header("h", b"\xff"), Header("n", None))),
        Record(1, NOON + 7, None, b'"quoted"'),
        codec=Codec.GZIP,
        partition_leader_epoch=3,
        producer_id=9,
        producer_epoch=1,
        base_sequence=4,
        is_transactional=True,
    )
    second = bytearray(batch_of(b"v", base_offset=2))
    second[-1] ^= 1
    log = segment(tmp_path, 0, first, second)
    output = printed("--records", log)
    checksums = [int.from_bytes(batch[17:21]) for batch in (first, second)]
    assert output.output.splitlines() == [
        f"{log}: batches, base offset 0, {len(first) + len(second)} bytes",
        f"  0: offsets 0 to 1, 2 records, {len(first)} bytes, gzip, "
        "max CreateTime 2020-09-13T12:26:40.007Z, leader epoch 3, producer 9 epoch 1 "
        f"sequences 4 to 5, transactional, checksum {checksums[0]:08x}",
        '    0  2020-09-13T12:26:40.000Z  key "k"  value null  header "h" 0xff  header "n" null',
        '    1  2020-09-13T12:26:40.007Z  key null  value "\\"quoted\\""',
        f"  {len(first)}: offset 2, 1 record, {len(second)} bytes, "
        f"max CreateTime 1970-01-01T00:00:00.000Z, checksum {checksums[1]:08x} WRONG",
    ]


@pytest.mark.parametrize("timestamp", [2**63 - 1, 10**17])
def test_timestamps_without_a_valid_date_are_printed_as_numbers(tmp_path, timestamp):
    log = segment(tmp_path, 0, batch_of(Record(0, timestamp, None, None)))
    assert f"    0  {timestamp}  key" in printed("--records", log).output


def test_delete_horizon_is_printed(tmp_path):
    log = segment(tmp_path, 0, batch_of(Record(0, NOON, b"k", None), delete_horizon_ms=NOON + 1))
    assert "delete horizon 2020-09-13T12:26:40.001Z" in printed(log).output
    assert dumped(log).of_kind("batch")[0]["delete_horizon_ms"] == NOON + 1


def test_magic_of_legacy_formats_is_printed():
    output = printed("--records", SEGMENTS / "java-magic-0-gzip.log").output
    assert "  0: offsets up to 4, 203 bytes, magic 0, gzip, checksum 8c8304c7\n" in output
    assert '    3  key "key"  value "value"\n' in output


def test_help_fits_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        command.main(["--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_named_pipe_is_not_read(tmp_path):
    pipe = tmp_path / "leader-epoch-checkpoint"
    os.mkfifo(pipe)
    with pytest.raises(SystemExit, match="2"):
        command.main([str(pipe)])
    assert dumped(tmp_path).damages == [(pipe.name, None, "not a regular file")]


def test_read_error_is_damage(directory, monkeypatch):
    def fail(descriptor, length, position):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(file_reader.files.system, "pread", fail, raising=False)
    assert {reason for _, _, reason in dumped(directory).damages} == {
        "cannot be read: Input/output error"
    }
