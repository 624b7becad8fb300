"""Our dump tells of a file what Kafka's own DumpLogSegments tells of it."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from struct import pack_into, unpack_from

import confluent_kafka
import pytest

from odradek.controller.tied_process import tied_command
from tests.support import log_dump
from tests.support.dumps import dumped, dumped_batches
from tests.support.java_program import RUN_TIMEOUT_S, java_command
from tests.support.recorded_directories import (
    LEFT,
    RECOVERED,
    RecordedDirectory,
    names_of_recorded_directories,
)
from tests.support.recorded_segments import SEGMENTS, names_of_recorded_segments

NAMES = names_of_recorded_directories()
#: Kafka's tool fails on an index that was not closed.
CLOSED = [
    *((name, LEFT) for name in NAMES if name.endswith("-stopped")),
    *((name, RECOVERED) for name in NAMES if not name.endswith("-damaged")),
]
#: Ending -> its names for what is in a file; the kind of our facts about it, and our names.
ENTRIES = {
    ".index": (
        ("offset", "position"),
        "index_entry",
        ("offset", "log_position"),
    ),
    ".timeindex": (
        ("timestamp", "offset"),
        "time_index_entry",
        ("timestamp", "offset"),
    ),
    ".txnindex": (
        ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset"),
        "aborted_transaction",
        ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset"),
    ),
    ".snapshot": (
        ("producerId", "producerEpoch", "coordinatorEpoch", "lastTimestamp"),
        "producer",
        ("producer_id", "producer_epoch", "coordinator_epoch", "last_timestamp"),
    ),
}
#: It also complains of its logging, and of the gaps that compaction leaves.
NO_MISMATCH = "^log4j:|^Non-consecutive offsets in |^  [0-9]+ is followed by [0-9]+$"
POLL_TIMEOUT_S = 30


class KafkaDump:
    """What the tool printed of some files."""

    def __init__(self, jars, files, *options):
        names = ",".join(map(str, files))
        command = java_command(jars, "kafka.tools.DumpLogSegments", *options, "--files", names)
        ended = subprocess.run(
            tied_command(command), capture_output=True, text=True, check=True, timeout=RUN_TIMEOUT_S
        )
        self.mismatches = [
            line for line in ended.stderr.splitlines() if not re.search(NO_MISMATCH, line)
        ]
        self.lines = {}
        for line in ended.stdout.splitlines():
            if line.startswith("Dumping "):
                about = self.lines[Path(line.removeprefix("Dumping "))] = []
            about.append(line)

    def batches(self, path):
        return [line for line in self.lines[path] if " magic: " in line]

    def records(self, path):
        return [line for line in self.lines[path] if line.startswith("| ")]

    def entries(self, path):
        return [line for line in self.lines[path][1:] if not line.endswith(" is empty.")]


def numbers(line, *names):
    found = dict(re.findall(r"(\w+): (-?\d+)", line))
    return tuple(int(found[name]) for name in names)


def files_of(directory, *endings):
    found = sorted(path for path in directory.rglob("*") if path.suffix in endings)
    return [path for path in found if path.stat().st_size or path.suffix != ".log"]


@pytest.fixture(scope="module", params=CLOSED, ids="/".join)
def closed(request, tmp_path_factory, kafka_39_jars):
    """A directory that a broker has closed, and what the tool prints of its files."""
    name, part = request.param
    directory = tmp_path_factory.mktemp(name)
    RecordedDirectory.unpack(name, directory)
    files = files_of(directory / part, ".log", *ENTRIES)
    return directory / part, KafkaDump(kafka_39_jars, files, "--print-data-log")


def test_batches_of_recorded_segments_are_told_alike(kafka_39_jars, tmp_path):
    segments = []
    for name in names_of_recorded_segments():
        # The tool wants a segment's name to be a number.
        segments.append(tmp_path / name / f"{0:020}.log")
        segments[-1].parent.mkdir()
        shutil.copy(SEGMENTS / f"{name}.log", segments[-1])
    theirs = log_dump.dumped_batches(kafka_39_jars, segments)
    assert {path: dumped_batches(path) for path in segments} == theirs


def test_batches_of_recorded_directories_are_told_alike(closed):
    directory, theirs = closed
    for path in files_of(directory, ".log"):
        assert [
            (batch.position, batch.size, batch.magic, batch.crc) for batch in dumped_batches(path)
        ] == [numbers(line, "position", "size", "magic", "crc") for line in theirs.batches(path)]


def test_records_are_told_alike(closed):
    directory, theirs = closed
    for path in files_of(directory, ".log"):
        records = dumped("--records", "--decode", "none", path).of_kind("record")
        for record, line in zip(records, theirs.records(path), strict=True):
            assert numbers(line, "offset") == (record["offset"],)
            assert says_the_same(record, line)


def says_the_same(record, line):
    if "control" in record:
        told = record["control"]
        ending = f"endTxnMarker: {told['type'].upper()} coordinatorEpoch: "
        return line.endswith(f"{ending}{told['coordinator_epoch']}")
    names = ",".join(header["key"] for header in record["headers"])
    key, value = record["key"], record["value"]
    parts = [f" headerKeys: [{names}]"] if names else []
    parts += [f" key: {key}"] if isinstance(key, str) else []
    parts += [f" payload: {value}"] if isinstance(value, str) else []
    return all(part in line for part in parts)


def test_indexes_and_snapshots_are_told_alike_and_neither_finds_a_mismatch(closed):
    directory, theirs = closed
    assert theirs.mismatches == []
    assert dumped("--verify", "--quiet", directory).damages == []
    for path in files_of(directory, *ENTRIES):
        names, kind, our_names = ENTRIES[path.suffix]
        told = [tuple(fact[name] for name in our_names) for fact in dumped(path).of_kind(kind)]
        assert told == [numbers(line, *names) for line in theirs.entries(path)]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("transactions-")])
def test_transactions_are_decoded_alike(name, tmp_path, kafka_39_jars):
    RecordedDirectory.unpack(name, tmp_path)
    segments = [
        path
        for path in files_of(tmp_path / LEFT, ".log")
        if path.parent.name.startswith("__transaction_state-")
    ]
    theirs = KafkaDump(kafka_39_jars, segments, "--transaction-log-decoder")
    for path in segments:
        records = dumped("--records", path).of_kind("record")
        for record, line in zip(records, theirs.records(path), strict=True):
            assert told_of_transaction(line) == transaction_as_kafka_tells_it(record["decoded"])


def told_of_transaction(line):
    """Partitions come in the order of a Java set, which is none."""
    before, partitions, after = re.search(r" (key: .*partitions=\[)(.*)(\],txn.*)", line).groups()
    return before, set(partitions.split(",")), after


def transaction_as_kafka_tells_it(decoded):
    fields = decoded["value"]["fields"]
    partitions = {
        f"{each['topic']}-{partition}"
        for each in fields["transaction_partitions"] or ()
        for partition in each["partition_ids"]
    }
    before = (
        f"key: transaction_metadata::transactionalId={decoded['key']['fields']['transactional_id']}"
        f" payload: producerId:{fields['producer_id']},producerEpoch:{fields['producer_epoch']},"
        f"state={fields['transaction_status']},partitions=["
    )
    after = (
        f"],txnLastUpdateTimestamp={fields['transaction_last_update_timestamp_ms']},"
        f"txnTimeoutMs={fields['transaction_timeout_ms']}"
    )
    return before, partitions or {""}, after


def test_groups_and_offsets_are_decoded_alike(kafka_39, kafka_39_jars):
    consume_in_a_group(kafka_39.bootstrap, topic="dumped")
    segments = [
        path
        for path in files_of(kafka_39.data_directory, ".log")
        if path.parent.name.startswith("__consumer_offsets-")
    ]
    theirs = KafkaDump(kafka_39_jars, segments, "--offsets-decoder")
    kinds = set()
    for path in segments:
        lines = theirs.records(path)
        # Other tests may make the broker write more in the meantime.
        records = dumped("--records", "--verify", path).of_kind("record")[: len(lines)]
        for record, line in zip(records, lines, strict=True):
            found = re.search(r" key: (\{.*\}) payload: (\{.*\})$", line)
            if found is None:
                continue  # a tombstone or a marker, which other tests have left there
            key, value = found.groups()
            decoded = record["decoded"]
            kinds.add(decoded["key"]["type"])
            assert as_kafka_tells_it(decoded["key"]["fields"]) == json.loads(key)["data"]
            assert as_kafka_tells_it(decoded["value"]["fields"]) == json.loads(value)["data"]
    assert kinds >= {"OffsetCommitKey", "GroupMetadataKey"}


def consume_in_a_group(bootstrap, *, topic):
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"value")
    assert producer.flush(POLL_TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "dump",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    assert consumer.poll(POLL_TIMEOUT_S) is not None
    consumer.commit(asynchronous=False)
    consumer.close()


def as_kafka_tells_it(told):
    """Names in Kafka's manner; it leaves out the version of what members told each other."""
    if isinstance(told, list):
        return [as_kafka_tells_it(each) for each in told]
    if not isinstance(told, dict):
        return told
    return {
        re.sub(r"_(\w)", lambda found: found[1].upper(), name): as_kafka_tells_it(value)
        for name, value in told.items()
        if name != "version"
    }


@pytest.fixture
def mixed(tmp_path):
    """A partition whose first segment has indexes with several entries."""
    RecordedDirectory.unpack("transactions-stopped", tmp_path)
    return tmp_path / LEFT / "mixed-0"


@pytest.mark.parametrize(
    ("ending", "layout", "position", "change"),
    [
        pytest.param(".index", ">I", 8, 6, id="an offset of a later batch"),
        pytest.param(".timeindex", ">q", 12, 1, id="another timestamp"),
        pytest.param(".timeindex", ">I", 20, 1, id="an offset of the next batch"),
    ],
)
def test_an_entry_that_is_not_true_is_found_by_kafkas_tool_too(
    mixed, kafka_39_jars, ending, layout, position, change
):
    index = mixed / f"{0:020}{ending}"
    content = bytearray(index.read_bytes())
    pack_into(layout, content, position, unpack_from(layout, content, position)[0] + change)
    index.write_bytes(content)
    assert KafkaDump(kafka_39_jars, [index]).mismatches != []
    assert dumped("--verify", index).exit_code == 1


def test_a_wrong_checksum_is_found_by_both(mixed, kafka_39_jars):
    log = mixed / f"{0:020}.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    theirs = KafkaDump(kafka_39_jars, [log])
    (wrong,) = [line for line in theirs.batches(log) if line.endswith("isvalid: false")]
    ((_, position, _),) = dumped(log).damages
    assert numbers(wrong, "position") == (position,)
