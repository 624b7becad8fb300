"""The file that holds a log's topic id, as Kafka 3.9.1 writes and reads it."""

import pytest

from odradek.protocol.errors import InconsistentTopicId
from odradek.protocol.types import Uuid
from odradek.storage import files, partition_metadata
from odradek.storage.checkpoint import CorruptCheckpoint

TOPIC_ID = Uuid.parse("YlHH6wMzQJutnc_zJSU0mg")
OTHER_ID = Uuid.parse("MTIzNDU2Nzg5MDEyMzQ1Ng")
# As in the directory of a real broker: the last line has no newline.
BY_KAFKA = b"version: 0\ntopic_id: YlHH6wMzQJutnc_zJSU0mg"
FILE = "partition.metadata"


def test_file_has_the_bytes_that_kafka_writes(tmp_path):
    partition_metadata.write(tmp_path, TOPIC_ID)
    assert (tmp_path / FILE).read_bytes() == BY_KAFKA
    assert partition_metadata.read(tmp_path) == TOPIC_ID


def test_missing_file_means_no_topic_id(tmp_path):
    assert partition_metadata.read(tmp_path) is None


def test_writing_another_topic_id_is_rejected(tmp_path):
    partition_metadata.write(tmp_path, TOPIC_ID)
    with pytest.raises(InconsistentTopicId, match=f"{TOPIC_ID}, not {OTHER_ID}"):
        partition_metadata.write(tmp_path, OTHER_ID)
    assert partition_metadata.read(tmp_path) == TOPIC_ID


def test_writing_the_same_id_again_does_not_rewrite_the_file(tmp_path):
    partition_metadata.write(tmp_path, TOPIC_ID)
    before = (tmp_path / FILE).stat().st_ino
    partition_metadata.write(tmp_path, TOPIC_ID)
    assert (tmp_path / FILE).stat().st_ino == before


@pytest.mark.parametrize(
    "content",
    [
        BY_KAFKA + b"\n",
        BY_KAFKA.replace(b"\n", b"\r\n"),
        BY_KAFKA.replace(b": ", b":  "),
        BY_KAFKA.replace(b"0", b"3", 1) + b"\nnewer_field: 1\n",
    ],
)
def test_variants_that_kafka_reads_are_read(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    assert partition_metadata.read(tmp_path) == TOPIC_ID


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 0),
        (b"version: 0", 1),
        (b"version: 0\n", 1),
        (b"version: x\ntopic_id: YlHH6wMzQJutnc_zJSU0mg", 1),
        (b"version: -1\ntopic_id: YlHH6wMzQJutnc_zJSU0mg", 1),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2),
        (b"version: 0\ntopic_id: YlHH6wMzQJutnc/zJSU0mg", 2),
        (b"version: 0\ntopic_id: YlHH6wMzQJutnc_zJSU0mh", 2),
        (b"version: 0\ntopic_id: \xff", 2),
        (bytes(46), 1),
    ],
)
def test_invalid_content_is_corrupt(tmp_path, content, line):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(CorruptCheckpoint) as caught:
        partition_metadata.read(tmp_path)
    assert caught.value.line == line


def test_truncation_at_any_byte_is_detected(tmp_path):
    for end in range(len(BY_KAFKA)):
        (tmp_path / FILE).write_bytes(BY_KAFKA[:end])
        with pytest.raises(CorruptCheckpoint):
            partition_metadata.read(tmp_path)


def id_or_none(directory):
    try:
        return partition_metadata.read(directory)
    except CorruptCheckpoint:
        return None


def test_changed_byte_is_detected_or_yields_another_id(tmp_path, monkeypatch):
    topic_ids = set()
    for position in range(len(BY_KAFKA)):
        for byte in range(256):
            changed = BY_KAFKA[:position] + bytes([byte]) + BY_KAFKA[position + 1 :]
            monkeypatch.setattr(files, "read", lambda _, changed=changed: changed)
            topic_ids.add(id_or_none(tmp_path))
    # 63 other characters at 21 positions, but only three at the last, which carries two bits.
    assert len(topic_ids - {None, TOPIC_ID}) == 21 * 63 + 3
