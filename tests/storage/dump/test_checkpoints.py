"""The dump of snapshots, checkpoints and the other small files."""

import pytest

from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import (
    clean_shutdown,
    leader_epoch_file_cache,
    meta_properties,
    offset_checkpoints,
    partition_metadata,
)
from odradek.storage.dump import file_reader
from odradek.storage.leader_epoch_file_cache import EpochEntry
from odradek.storage.meta_properties import MetaProperties
from odradek.storage.producer_state.producer_state_entry import PACKED_BATCH, ProducerStateEntry
from odradek.storage.producer_state.snapshot import encode
from tests.support.dumps import dumped, printed
from tests.support.recorded_producers import (
    PRODUCER_SNAPSHOTS,
    names_of_recorded_producers,
    recorded_producers,
)

OFFSET_CHECKPOINTS = (
    offset_checkpoints.RECOVERY_POINTS,
    offset_checkpoints.HIGH_WATERMARKS,
    offset_checkpoints.LOG_START_OFFSETS,
    offset_checkpoints.CLEANER_OFFSETS,
)
PRODUCER_ID = 4


def snapshot(directory, *, offset=10, last_offset=9, transaction=None):
    """Write a snapshot of one producer."""
    path = directory / f"{offset:020}.snapshot"
    state = ProducerStateEntry(0, -1, 1, transaction, PACKED_BATCH.pack(5, last_offset, 1, 1))
    path.write_bytes(encode({PRODUCER_ID: state}))
    return path


@pytest.mark.parametrize("name", names_of_recorded_producers())
def test_producers_are_those_that_the_kafka_tool_printed(name):
    for offset, entries in recorded_producers(name).entries.items():
        dump = dumped(PRODUCER_SNAPSHOTS / name / f"{offset:020}.snapshot")
        assert dump.exit_code == 0
        assert dump.of_kind("producer") == [as_item(entry) for entry in entries]


def as_item(entry):
    """Convert an entry to a dump item. The tool omits unknown batches and missing transactions."""
    first = entry["transaction_first_offset"]
    return {
        "producer_id": entry["producer_id"],
        "producer_epoch": entry["epoch"],
        "last_sequence": entry.get("last_sequence", -1),
        "last_offset": entry.get("last_offset", -1),
        "offset_delta": entry.get("offset_delta", 0),
        "last_timestamp": entry["last_timestamp"],
        "coordinator_epoch": entry["coordinator_epoch"],
        "transaction_first_offset": -1 if first is None else first,
    }


@pytest.mark.parametrize("position", range(2, 56))
def test_flipped_bit_in_a_snapshot_is_damage_and_its_entries_are_printed(tmp_path, position):
    path = snapshot(tmp_path)
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    dump = dumped(path)
    assert dump.damages[0][2].startswith("checksum ")
    assert len(dump.of_kind("producer")) == 1


@pytest.mark.parametrize("size", range(56))
def test_truncated_snapshot_is_damage(tmp_path, size):
    path = snapshot(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    dump = dumped(path)
    assert len(dump.damages) == 1
    assert dump.of_kind("producer") == []


@pytest.mark.parametrize("later", [{"last_offset": 10}, {"transaction": 10}])
def test_producer_offset_after_the_snapshot_is_damage(tmp_path, later):
    path = snapshot(tmp_path, offset=10, **later)
    assert dumped(path).damages == [
        (path.name, 10, f"producer {PRODUCER_ID} has offset 10, at or after the snapshot")
    ]


def test_leader_epochs_are_printed(tmp_path):
    path = tmp_path / leader_epoch_file_cache.FILE_NAME
    leader_epoch_file_cache.write(path, [EpochEntry(0, 0), EpochEntry(3, 17)])
    assert dumped(path).of_kind("leader_epoch") == [
        {"epoch": 0, "start_offset": 0},
        {"epoch": 3, "start_offset": 17},
    ]


@pytest.mark.parametrize("checkpoint", OFFSET_CHECKPOINTS, ids=lambda each: each.name)
def test_offsets_of_partitions_are_printed(tmp_path, checkpoint):
    checkpoint.write(tmp_path, {TopicPartition("a", 0): 5, TopicPartition("b-c", 2): 0})
    assert dumped(tmp_path / checkpoint.name).of_kind("partition_offset") == [
        {"topic": "a", "partition": 0, "offset": 5},
        {"topic": "b-c", "partition": 2, "offset": 0},
    ]


def test_empty_checkpoint_is_not_damage(tmp_path):
    path = tmp_path / leader_epoch_file_cache.FILE_NAME
    path.write_bytes(b"")
    assert dumped(path).exit_code == 0


@pytest.mark.parametrize(
    ("name", "content", "line", "reason"),
    [
        ("leader-epoch-checkpoint", "0\n2\n0 0\n", 2, "expected 2 entries, but found 1"),
        ("leader-epoch-checkpoint", "1\n0\n", 1, "version 1 is unknown"),
        ("replication-offset-checkpoint", "0\n1\na x 5\n", 3, "not a number: 'x'"),
        ("recovery-point-offset-checkpoint", "0\n1\na 0 5", 3, "the file is cut short"),
        ("partition.metadata", "version: 0\n", 1, "the file is cut short"),
    ],
)
def test_malformed_checkpoint_is_damage_and_its_lines_are_printed(
    tmp_path, name, content, line, reason
):
    (tmp_path / name).write_text(content)
    dump = dumped(tmp_path / name)
    assert dump.damages == [(name, line, reason)]
    assert [item["text"] for item in dump.of_kind("line")] == content.splitlines()


def test_topic_id_of_a_log_is_printed(tmp_path):
    topic_id = Uuid(bytes(range(16)))
    partition_metadata.write(tmp_path, topic_id)
    dump = dumped(tmp_path / partition_metadata.FILE_NAME)
    assert dump.of_kind("partition_metadata") == [{"topic_id": str(topic_id)}]


def test_meta_properties_are_printed(tmp_path):
    meta_properties.write(tmp_path, MetaProperties(1, "cluster", {"directory.id": "x"}))
    assert dumped(tmp_path).of_kind("meta_properties") == [
        {
            "properties": {
                "version": "0",
                "broker.id": "1",
                "cluster.id": "cluster",
                "directory.id": "x",
            }
        }
    ]


def test_kraft_meta_properties_are_not_damage(tmp_path):
    (tmp_path / meta_properties.FILE_NAME).write_text("version=1\nnode.id=3\ncluster.id=c\n")
    dump = dumped(tmp_path)
    assert dump.of_kind("meta_properties")[0]["properties"]["node.id"] == "3"
    assert dump.exit_code == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("version=2\n", "version '2' is unknown"),
        ("broker.id=one\n", "broker.id is 'one', which is not a valid broker id"),
        ("broker.id=\\u12\n", "1: \\u must be followed by four"),
    ],
)
def test_invalid_meta_properties_are_damage(tmp_path, content, reason):
    (tmp_path / meta_properties.FILE_NAME).write_text(content)
    dump = dumped(tmp_path)
    assert len(dump.damages) == 1
    assert reason in dump.damages[0][2]
    assert dump.of_kind("line") == [{"line": 1, "text": content.strip()}]


def test_clean_shutdown_marker_is_printed(tmp_path):
    clean_shutdown.write(tmp_path)
    assert dumped(tmp_path).of_kind("clean_shutdown") == [{"broker_epoch": -1}]


def test_file_above_the_size_limit_of_its_type_is_not_read(tmp_path):
    path = tmp_path / leader_epoch_file_cache.FILE_NAME
    with path.open("wb") as file:
        file.truncate(file_reader.WHOLE_BYTES_MAX + 1)
    dump = dumped(path)
    assert [reason for _, _, reason in dump.damages] == [
        f"size {file_reader.WHOLE_BYTES_MAX + 1} exceeds the limit for this type of file"
    ]


def test_text_output_names_the_line_of_a_damaged_checkpoint(tmp_path):
    path = tmp_path / leader_epoch_file_cache.FILE_NAME
    path.write_text("0\n1\n0 x\n")
    output = printed(path)
    assert output.complaints == f"damage: {path}, line 3: not a number: 'x'\n"
