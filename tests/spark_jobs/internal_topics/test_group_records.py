"""``content=offsets``: the records of ``__consumer_offsets``."""

from struct import pack

import pytest

from odradek.protocol.internal.consumer_group_log import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from odradek.protocol.internal.coordinator_record import GROUP_RECORD_TYPES, encode_version_prefixed
from odradek.spark_jobs.scan.damage import ScanFailed
from tests.support.internal_topics import (
    CONSUMER_OFFSETS,
    NOW_MS,
    InternalLog,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from tests.support.message_vectors import MessageVector, load
from tests.support.scans import Scanned

COMMITTED = "group,topic,partition,offset"


@pytest.fixture
def log(tmp_path):
    return InternalLog(tmp_path, CONSUMER_OFFSETS)


@pytest.fixture
def scan(tmp_path):
    return lambda **options: Scanned(str(tmp_path), content="offsets", **options)


def vectors(message):
    """Return the recorded values that Kafka's own classes encoded."""
    return [vector for vector in load(MessageVector) if vector.message == message]


def stored(vector):
    return pack(">h", vector.version) + bytes.fromhex(vector.encoded)


class TestCommits:
    def test_commit_is_a_row_with_all_fields(self, log, scan):
        key = offset_key("billing", "orders", 3)
        log.put(key, offset_value(17, metadata="noted"), timestamp=NOW_MS + 1)
        (row,) = scan(mode="FAILFAST").rows
        assert row == {
            "recordType": "OffsetCommit",
            "group": "billing",
            "memberId": None,
            "topic": "orders",
            "partition": 3,
            "offset": 17,
            "leaderEpoch": None,
            "metadata": "noted",
            "commitTimestamp": NOW_MS,
            "expireTimestamp": None,
            "protocolType": None,
            "generation": None,
            "memberCount": None,
            "deleted": False,
            "logPartition": 0,
            "logOffset": 0,
            "logTimestamp": NOW_MS + 1,
            "isTransactional": False,
            "producerId": None,
            "producerEpoch": None,
            "segment": str(log.path),
        }

    def test_tombstone_is_a_row_with_deleted_set(self, log, scan):
        log.put(offset_key("billing", "orders", 3), None)
        (row,) = scan(columns="group,topic,partition,offset,deleted").rows
        assert row == {
            "group": "billing",
            "topic": "orders",
            "partition": 3,
            "offset": None,
            "deleted": True,
        }

    @pytest.mark.parametrize("vector", vectors("OffsetCommitValue"), ids=str)
    def test_every_value_that_kafka_writes_is_decoded(self, log, scan, vector):
        log.put(offset_key("g", "t", 0), stored(vector))
        (row,) = scan(mode="FAILFAST").rows
        fields = vector.shown
        assert (row["offset"], row["metadata"]) == (fields["offset"], fields["metadata"])
        for column, field in (
            ("leaderEpoch", "leaderEpoch"),
            ("commitTimestamp", "commitTimestamp"),
            ("expireTimestamp", "expireTimestamp"),
        ):
            number = fields.get(field, -1)
            is_too_large = column != "leaderEpoch" and number > (2**63 - 1) // 1000
            assert row[column] == (None if number < 0 or is_too_large else number)

    @pytest.mark.parametrize("vector", vectors("OffsetCommitKey"), ids=str)
    def test_every_key_that_kafka_writes_is_decoded(self, log, scan, vector):
        log.put(stored(vector), offset_value(1))
        (row,) = scan(columns="recordType,group,topic,partition", mode="FAILFAST").rows
        assert row == {"recordType": "OffsetCommit", **vector.shown}


class TestOtherRecords:
    def test_classic_group_has_generation_and_member_count(self, log, scan):
        log.put(group_key("billing"), group_value(4, member_ids=("a", "b")))
        log.put(group_key("billing"), None)
        columns = "recordType,group,protocolType,generation,memberCount,deleted"
        assert [tuple(row.values()) for row in scan(columns=columns).rows] == [
            ("GroupMetadata", "billing", "consumer", 4, 2, False),
            ("GroupMetadata", "billing", None, None, None, True),
        ]

    def test_consumer_group_records_have_their_type_group_and_member(self, log, scan):
        log.put(
            encode_version_prefixed(ConsumerGroupMetadataKey(group_id="modern"), 3),
            encode_version_prefixed(ConsumerGroupMetadataValue(epoch=9), 0),
        )
        member = ConsumerGroupMemberMetadataKey(group_id="modern", member_id="m-1")
        log.put(encode_version_prefixed(member, 5), None)
        columns = "recordType,group,memberId,generation,deleted"
        assert [tuple(row.values()) for row in scan(columns=columns, mode="FAILFAST").rows] == [
            ("ConsumerGroupMetadata", "modern", None, 9, False),
            ("ConsumerGroupMemberMetadata", "modern", "m-1", None, True),
        ]

    def test_every_known_record_type_has_a_name_and_a_group(self, log, scan):
        """The values are of unknown versions: the scan must not decode them."""
        types = {
            number: record_type for number, record_type in GROUP_RECORD_TYPES.items() if number > 3
        }
        for number, record_type in types.items():
            fields = {
                field.name: 1 if field.name == "partition" else f"the-{field.name}"
                for field in record_type.key.__schema__.fields
            }
            log.put(
                encode_version_prefixed(record_type.key(**fields), number), b"\x00\x63what follows"
            )
        rows = scan(columns="recordType,group,offset", mode="FAILFAST").rows
        assert [(row["recordType"], row["group"]) for row in rows] == [
            (record_type.key.__name__.removesuffix("Key"), "the-group_id")
            for record_type in types.values()
        ]

    def test_unknown_record_type_is_shown_by_its_number(self, log, scan):
        log.put(b"\x00\x63newer", b"newer")
        (row,) = scan(columns="recordType,group,deleted", mode="FAILFAST").rows
        assert row == {"recordType": "99", "group": None, "deleted": False}


UNREADABLE = {
    "no key": (None, b"value"),
    "an empty key": (b"", b"value"),
    "a key cut short": (offset_key("billing", "orders", 0)[:-1], offset_value(1)),
    "a key with more behind it": (offset_key("billing", "orders", 0) + b"!", offset_value(1)),
    "a negative kind": (b"\xff\xffkey", b"value"),
    "a version of the value that is not known": (
        offset_key("billing", "orders", 0),
        b"\x00\x09" + offset_value(1)[2:],
    ),
    "a value cut short": (offset_key("billing", "orders", 0), offset_value(1)[:-1]),
    "text that is no UTF-8": (b"\x00\x01\x00\x01\xff\x00\x01t\x00\x00\x00\x00", offset_value(1)),
}


@pytest.mark.parametrize(("key", "value"), UNREADABLE.values(), ids=UNREADABLE)
class TestUnreadableRecords:
    @pytest.fixture
    def sizes(self, log, key, value):
        """File sizes before and after the undecodable record, which is between two valid ones."""
        log.put(offset_key("billing", "orders", 1), offset_value(10))
        before = log.path.stat().st_size
        log.put(key, value)
        after = log.path.stat().st_size
        log.put(offset_key("billing", "orders", 2), offset_value(20))
        return before, after

    def test_permissive_skips_and_reports_the_record(self, sizes, scan):
        scanned = scan()
        assert [row["offset"] for row in scanned.rows] == [10, 20]
        (damage,) = scanned.damages
        assert (damage.position, damage.end_position) == sizes
        assert damage.first_offset == 1
        assert damage.reason.startswith("the record at offset 1: ")

    def test_dropmalformed_skips_the_record(self, sizes, scan):
        scanned = scan(mode="DROPMALFORMED")
        assert ([row["offset"] for row in scanned.rows], scanned.damages) == ([10, 20], [])

    def test_failfast_raises(self, sizes, scan):
        with pytest.raises(ScanFailed, match="from offset 1 on: the record at offset 1"):
            scan(mode="FAILFAST")


class TestTransactions:
    @pytest.fixture
    def log(self, log):
        """Offset 10 is committed, 20 is aborted, and 30 belongs to an open transaction."""
        log.put(offset_key("g", "t", 0), offset_value(10), producer_id=1)
        log.put(offset_key("g", "t", 0), offset_value(20), producer_id=2)
        log.mark(2, is_commit=False)
        log.mark(1, is_commit=True)
        log.put(offset_key("g", "t", 0), offset_value(30), producer_id=1)
        log.put(offset_key("g", "t", 1), offset_value(40))
        return log

    def test_read_committed_skips_aborted_commits_and_stops_at_an_open_transaction(self, log, scan):
        assert [row["offset"] for row in scan(mode="FAILFAST").rows] == [10]

    def test_read_uncommitted_with_control_records_shows_the_markers(self, log, scan):
        columns = "recordType,offset,isTransactional,producerId,deleted,logOffset"
        scanned = scan(columns=columns, isolationLevel="read_uncommitted", includeControl="true")
        assert [tuple(row.values()) for row in scanned.rows] == [
            ("OffsetCommit", 10, True, 1, False, 0),
            ("OffsetCommit", 20, True, 2, False, 1),
            ("AbortMarker", None, True, 2, False, 2),
            ("CommitMarker", None, True, 1, False, 3),
            ("OffsetCommit", 30, True, 1, False, 4),
            ("OffsetCommit", 40, False, None, False, 5),
        ]


class TestOneGroup:
    """Java's hash of both group ids is equal modulo 2: they share one of two partitions."""

    GROUPS = ("a", "c")

    @pytest.fixture
    def logs(self, tmp_path):
        logs = [InternalLog(tmp_path, CONSUMER_OFFSETS, number) for number in range(2)]
        for number, group in enumerate(self.GROUPS):
            logs[1].put(offset_key(group, "t", 0), offset_value(number))
        logs[0].put(offset_key("b", "t", 0), offset_value(100))
        return logs

    def test_only_records_of_the_group_are_rows(self, logs, scan):
        assert [tuple(row.values()) for row in scan(group="c", columns=COMMITTED).rows] == [
            ("c", "t", 0, 1)
        ]
        assert [row["offset"] for row in scan(group="b").rows] == [100]

    def test_other_partitions_are_not_read(self, logs, scan):
        logs[0].path.write_bytes(b"damage" * 100)
        assert len(scan(group="a", mode="FAILFAST").rows) == 1
        assert scan().damages

    def test_all_partitions_are_read_if_their_number_is_unknown(self, logs, scan):
        """Partitions 1 and 3 exist, so their total number is unknown."""
        logs[0].path.parent.rename(logs[0].path.parent.with_name(f"{CONSUMER_OFFSETS}-3"))
        assert len(scan(group="c").rows) == 1

    @pytest.mark.parametrize("by", ["assign", "path"])
    def test_partitions_that_are_not_selected_still_count(self, tmp_path, by):
        """With three partitions the group is in partition 0; with two it would be in 1."""
        logs = [InternalLog(tmp_path, CONSUMER_OFFSETS, number) for number in range(3)]
        logs[0].put(offset_key("c", "t", 0), offset_value(7))
        assign = {"path": str(tmp_path), "assign": f'{{"{CONSUMER_OFFSETS}": [0, 1]}}'}
        path = {"path": ",".join(str(log.path.parent) for log in logs[:2])}
        selection = assign if by == "assign" else path
        scanned = Scanned(content="offsets", group="c", columns="offset", **selection)
        assert scanned.offsets == [7]

    def test_partition_count_option_sets_the_number_of_partitions(self, logs, scan):
        logs[0].path.parent.rename(logs[0].path.parent.with_name(f"{CONSUMER_OFFSETS}-3"))
        assert len(scan(group="c", partitionCount="2").rows) == 1
        assert len(scan(group="c", partitionCount="4").rows) == 0  # it would be in 3


INVALID = [
    ({"content": "offsets", "view": "batches"}, "view=batches: cannot be combined with content"),
    ({"group": "g"}, "group: requires content=offsets"),
    ({"content": "transactions", "group": "g"}, "group: requires content=offsets"),
    (
        {"content": "offsets", "transactionalId": "t"},
        "transactionalId: requires content=transactions",
    ),
    ({"partitionCount": "50"}, "partitionCount: requires content=offsets or content=tran"),
    ({"content": "offsets", "columns": "value"}, "unknown column 'value'; known columns: record"),
    (
        {"content": "offsets", "includeHeaders": "true"},
        "includeHeaders: not available with content=offsets",
    ),
    ({"content": "groups"}, "content: must be one of raw, offsets, transactions, not groups"),
]


@pytest.mark.parametrize(("options", "message"), INVALID)
def test_invalid_options_are_reported_in_one_line(log, tmp_path, options, message):
    with pytest.raises(ScanFailed, match=message) as raised:
        Scanned(str(tmp_path), **options)
    assert "\n" not in str(raised.value)


def test_only_the_internal_topic_is_read_by_default(tmp_path, scan):
    InternalLog(tmp_path, "copied").put(offset_key("g", "t", 0), offset_value(1))
    InternalLog(tmp_path, CONSUMER_OFFSETS).put(offset_key("g", "t", 0), offset_value(2))
    assert [row["offset"] for row in scan().rows] == [2]
    assert [row["offset"] for row in scan(topics="copied").rows] == [1]
