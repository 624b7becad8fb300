"""Topic, log and cleaner settings: names, defaults and rules as in Kafka 3.9."""

import pytest

from odradek.config.definition import ConfigSource, SettingError, UpdateMode
from odradek.config.documentation import as_markdown
from odradek.protocol.records.compression import Codec
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.log_settings import LogSettings
from odradek.storage.settings import TopicSettings
from odradek.storage.validation.append_rules import append_rules_for

NEVER = 2**63 - 1
HOUR_MS = 3_600_000

# Origin: the definitions of Apache Kafka 3.9.1, as its own ConfigDef lists them.
TOPIC = {
    "cleanup.policy": ("LIST", "delete", "log.cleanup.policy"),
    "compression.gzip.level": ("INT", "-1", "compression.gzip.level"),
    "compression.lz4.level": ("INT", "9", "compression.lz4.level"),
    "compression.type": ("STRING", "producer", "compression.type"),
    "compression.zstd.level": ("INT", "3", "compression.zstd.level"),
    "delete.retention.ms": ("LONG", "86400000", "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": ("LONG", "60000", "log.segment.delete.delay.ms"),
    "flush.messages": ("LONG", "9223372036854775807", "log.flush.interval.messages"),
    "flush.ms": ("LONG", "9223372036854775807", "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": ("LIST", "", None),
    "index.interval.bytes": ("INT", "4096", "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": ("LIST", "", None),
    "max.compaction.lag.ms": (
        "LONG",
        "9223372036854775807",
        "log.cleaner.max.compaction.lag.ms",
    ),
    "max.message.bytes": ("INT", "1048588", "message.max.bytes"),
    "message.downconversion.enable": ("BOOLEAN", "true", "log.message.downconversion.enable"),
    "message.format.version": ("STRING", "3.0-IV1", "log.message.format.version"),
    "message.timestamp.after.max.ms": (
        "LONG",
        "9223372036854775807",
        "log.message.timestamp.after.max.ms",
    ),
    "message.timestamp.before.max.ms": (
        "LONG",
        "9223372036854775807",
        "log.message.timestamp.before.max.ms",
    ),
    "message.timestamp.difference.max.ms": (
        "LONG",
        "9223372036854775807",
        "log.message.timestamp.difference.max.ms",
    ),
    "message.timestamp.type": ("STRING", "CreateTime", "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": ("DOUBLE", "0.5", "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": ("LONG", "0", "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": ("INT", "1", "min.insync.replicas"),
    "preallocate": ("BOOLEAN", "false", "log.preallocate"),
    "retention.bytes": ("LONG", "-1", "log.retention.bytes"),
    "retention.ms": ("LONG", "604800000", "log.retention.ms"),
    "segment.bytes": ("INT", "1073741824", "log.segment.bytes"),
    "segment.index.bytes": ("INT", "10485760", "log.index.size.max.bytes"),
    "segment.jitter.ms": ("LONG", "0", "log.roll.jitter.ms"),
    "segment.ms": ("LONG", "604800000", "log.roll.ms"),
    "unclean.leader.election.enable": ("BOOLEAN", "false", "unclean.leader.election.enable"),
}
SERVER = {
    "compression.gzip.level": ("INT", "-1"),
    "compression.lz4.level": ("INT", "9"),
    "compression.type": ("STRING", "producer"),
    "compression.zstd.level": ("INT", "3"),
    "log.cleaner.backoff.ms": ("LONG", "15000"),
    "log.cleaner.dedupe.buffer.size": ("LONG", "134217728"),
    "log.cleaner.delete.retention.ms": ("LONG", "86400000"),
    "log.cleaner.enable": ("BOOLEAN", "true"),
    "log.cleaner.io.buffer.load.factor": ("DOUBLE", "0.9"),
    "log.cleaner.io.buffer.size": ("INT", "524288"),
    "log.cleaner.io.max.bytes.per.second": ("DOUBLE", "1.7976931348623157E308"),
    "log.cleaner.max.compaction.lag.ms": ("LONG", "9223372036854775807"),
    "log.cleaner.min.cleanable.ratio": ("DOUBLE", "0.5"),
    "log.cleaner.min.compaction.lag.ms": ("LONG", "0"),
    "log.cleaner.threads": ("INT", "1"),
    "log.cleanup.policy": ("LIST", "delete"),
    "log.dirs": ("STRING", None),
    "log.flush.interval.messages": ("LONG", "9223372036854775807"),
    "log.flush.interval.ms": ("LONG", None),
    "log.flush.offset.checkpoint.interval.ms": ("INT", "60000"),
    "log.flush.scheduler.interval.ms": ("LONG", "9223372036854775807"),
    "log.flush.start.offset.checkpoint.interval.ms": ("INT", "60000"),
    "log.index.interval.bytes": ("INT", "4096"),
    "log.index.size.max.bytes": ("INT", "10485760"),
    "log.initial.task.delay.ms": ("LONG", "30000"),
    "log.message.downconversion.enable": ("BOOLEAN", "true"),
    "log.message.format.version": ("STRING", "3.0-IV1"),
    "log.message.timestamp.after.max.ms": ("LONG", "9223372036854775807"),
    "log.message.timestamp.before.max.ms": ("LONG", "9223372036854775807"),
    "log.message.timestamp.difference.max.ms": ("LONG", "9223372036854775807"),
    "log.message.timestamp.type": ("STRING", "CreateTime"),
    "log.preallocate": ("BOOLEAN", "false"),
    "log.retention.bytes": ("LONG", "-1"),
    "log.retention.check.interval.ms": ("LONG", "300000"),
    "log.retention.hours": ("INT", "168"),
    "log.retention.minutes": ("INT", None),
    "log.retention.ms": ("LONG", None),
    "log.roll.hours": ("INT", "168"),
    "log.roll.jitter.hours": ("INT", "0"),
    "log.roll.jitter.ms": ("LONG", None),
    "log.roll.ms": ("LONG", None),
    "log.segment.bytes": ("INT", "1073741824"),
    "log.segment.delete.delay.ms": ("LONG", "60000"),
    "message.max.bytes": ("INT", "1048588"),
    "min.insync.replicas": ("INT", "1"),
    "num.recovery.threads.per.data.dir": ("INT", "1"),
    "producer.id.expiration.check.interval.ms": ("INT", "600000"),
    "producer.id.expiration.ms": ("INT", "86400000"),
    "transaction.partition.verification.enable": ("BOOLEAN", "true"),
    "unclean.leader.election.enable": ("BOOLEAN", "false"),
}
# Settings that a broker reads only from its file; all others can change while it runs.
READ_ONLY = {
    "log.cleaner.enable",
    "log.dir",
    "log.dirs",
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "log.initial.task.delay.ms",
    "log.message.format.version",
    "log.retention.check.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.roll.hours",
    "log.roll.jitter.hours",
    "producer.id.expiration.check.interval.ms",
}
SERVER_SETTINGS = {**LogSettings.by_name, **CleanerSettings.by_name}


def topic(**texts):
    names = {name.replace("_", "."): text for name, text in texts.items()}
    return TopicSettings.read(
        {ConfigSource.TOPIC: names}, server_tables=[LogSettings(), CleanerSettings()]
    )


def server(**texts):
    names = {name.replace("_", "."): text for name, text in texts.items()}
    return [table.read({ConfigSource.FILE: names}) for table in (LogSettings, CleanerSettings)]


def type_and_default(setting):
    return setting.type.name, setting.display_value(setting.literal_default)


class TestTables:
    def test_topic_settings_match_kafka(self):
        assert {
            name: (*type_and_default(setting), setting.synonym)
            for name, setting in TopicSettings.by_name.items()
        } == TOPIC

    def test_server_settings_match_kafka_except_log_dir(self):
        ours = {name: type_and_default(setting) for name, setting in SERVER_SETTINGS.items()}
        assert ours.pop("log.dir") == ("STRING", "kafka-logs")
        assert ours == SERVER

    def test_server_tables_do_not_overlap(self):
        assert not LogSettings.by_name.keys() & CleanerSettings.by_name.keys()

    def test_server_tables_hold_the_synonym_of_every_topic_setting(self):
        synonyms = {setting.synonym for setting in TopicSettings.by_name.values()} - {None}
        assert synonyms <= SERVER_SETTINGS.keys()
        for setting in TopicSettings.by_name.values():
            if setting.synonym:
                assert SERVER_SETTINGS[setting.synonym].type is setting.type

    def test_update_mode_of_every_setting(self):
        read_only = {
            name
            for name, setting in SERVER_SETTINGS.items()
            if setting.update is UpdateMode.READ_ONLY
        }
        assert read_only == READ_ONLY
        assert {setting.update for setting in TopicSettings.by_name.values()} == {UpdateMode.TOPIC}

    @pytest.mark.parametrize("table", [TopicSettings, LogSettings, CleanerSettings])
    def test_tables_can_be_printed_as_markdown(self, table):
        assert as_markdown(table).count("\n") == len(table.by_name) + 2


class TestValues:
    @pytest.mark.parametrize(
        "text",
        [
            "cleanup_policy=shrink",
            "compression_gzip_level=0",
            "compression_gzip_level=10",
            "compression_lz4_level=18",
            "compression_type=none",
            "compression_zstd_level=23",
            "follower_replication_throttled_replicas=1",
            "leader_replication_throttled_replicas=1:2,*",
            "max_compaction_lag_ms=0",
            "message_format_version=2.9",
            "message_format_version=4.0-IV9",
            "message_timestamp_type=createtime",
            "min_cleanable_dirty_ratio=1.1",
            "min_insync_replicas=0",
            "retention_ms=-2",
            "segment_bytes=13",
            "segment_index_bytes=3",
            "segment_ms=0",
        ],
    )
    def test_values_that_kafka_rejects_are_rejected(self, text):
        name, _, value = text.partition("=")
        with pytest.raises(SettingError):
            topic(**{name: value})

    @pytest.mark.parametrize(
        "text",
        [
            "cleanup_policy=compact,delete",
            "cleanup_policy=",
            "compression_gzip_level=-1",
            "compression_zstd_level=-131072",
            "follower_replication_throttled_replicas=0:1,12:3",
            "leader_replication_throttled_replicas=*",
            "max_message_bytes=0",
            "message_format_version=0.10.0",
            "message_format_version=0.11.0.2",
            "message_format_version=2.8",
            "message_format_version=2.8.1",
            "message_format_version=3.9-IV0",
            "retention_bytes=-7",
            "retention_ms=-1",
        ],
    )
    def test_values_that_kafka_accepts_are_accepted(self, text):
        name, _, value = text.partition("=")
        assert topic(**{name: value})

    def test_min_compaction_lag_must_not_exceed_the_maximum(self):
        assert topic(min_compaction_lag_ms="5", max_compaction_lag_ms="5")
        with pytest.raises(SettingError, match=r"at most max.compaction.lag.ms=5"):
            topic(min_compaction_lag_ms="6", max_compaction_lag_ms="5")
        with pytest.raises(SettingError, match=r"at most log.cleaner.max.compaction.lag.ms=5"):
            server(log_cleaner_min_compaction_lag_ms="6", log_cleaner_max_compaction_lag_ms="5")

    def test_min_compaction_lag_of_a_topic_must_not_exceed_the_server_maximum(self):
        tables = server(log_cleaner_max_compaction_lag_ms="5")
        with pytest.raises(SettingError, match=r"at most max.compaction.lag.ms=5"):
            TopicSettings.read(
                {ConfigSource.TOPIC: {"min.compaction.lag.ms": "6"}}, server_tables=tables
            )

    def test_dedupe_buffer_must_have_more_than_1_mib_per_cleaner_thread(self):
        assert server(log_cleaner_threads="2", log_cleaner_dedupe_buffer_size="2097153")
        with pytest.raises(SettingError, match="more than 1 MiB for each"):
            server(log_cleaner_threads="2", log_cleaner_dedupe_buffer_size="2097152")


class TestDirectories:
    @pytest.mark.parametrize(
        ("texts", "directories"),
        [
            ({}, ("kafka-logs",)),
            ({"log_dir": "a"}, ("a",)),
            ({"log_dir": "a, b"}, ("a", "b")),
            ({"log_dir": "a", "log_dirs": "b,,c "}, ("b", "c")),
        ],
    )
    def test_log_dirs_takes_precedence_over_log_dir(self, texts, directories):
        assert server(**texts)[0].directories == directories

    def test_at_least_one_directory_is_required(self):
        with pytest.raises(SettingError, match="must name a directory"):
            server(log_dirs=" , ")


class TestInheritance:
    def test_topic_inherits_server_settings(self):
        tables = server(log_retention_hours="2", log_roll_hours="3", log_cleaner_threads="4")
        settings = TopicSettings.read({}, server_tables=tables)
        assert (settings.retention_ms, settings.segment_ms) == (2 * HOUR_MS, 3 * HOUR_MS)

    @pytest.mark.parametrize(
        ("texts", "flush_ms"),
        [
            ({}, NEVER),
            ({"log_flush_scheduler_interval_ms": "7"}, 7),
            ({"log_flush_scheduler_interval_ms": "7", "log_flush_interval_ms": "8"}, 8),
        ],
    )
    def test_flush_ms_defaults_to_the_flush_scheduler_interval(self, texts, flush_ms):
        assert TopicSettings.read({}, server_tables=server(**texts)).flush_ms == flush_ms

    def test_negative_retention_in_any_unit_means_unlimited(self):
        tables = server(log_retention_hours="-1")
        assert TopicSettings.read({}, server_tables=tables).retention_ms < 0
        with pytest.raises(SettingError, match="at least 1, or negative"):
            server(log_retention_minutes="0")


class TestMeaning:
    def test_cleanup_policy_sets_compaction_and_deletion(self):
        assert (topic().is_compacted, topic().deletes_old_segments) == (False, True)
        both = topic(cleanup_policy="compact,delete")
        assert (both.is_compacted, both.deletes_old_segments) == (True, True)

    def test_max_segment_ms_is_limited_by_compaction_lag_if_compacted(self):
        ages = {"segment_ms": "10", "max_compaction_lag_ms": "5"}
        assert topic(**ages).max_segment_ms == 10
        assert topic(**ages, cleanup_policy="compact").max_segment_ms == 5

    @pytest.mark.parametrize(
        ("texts", "codec", "level"),
        [
            ({}, None, None),
            ({"compression_gzip_level": "4"}, None, None),
            ({"compression_type": "uncompressed"}, Codec.NONE, None),
            ({"compression_type": "snappy"}, Codec.SNAPPY, None),
            ({"compression_type": "gzip"}, Codec.GZIP, -1),
            ({"compression_type": "lz4", "compression_lz4_level": "4"}, Codec.LZ4, 4),
            ({"compression_type": "zstd", "compression_zstd_level": "4"}, Codec.ZSTD, 4),
        ],
    )
    def test_compression_type_sets_codec_and_level(self, texts, codec, level):
        rules = append_rules_for(topic(**texts))
        assert (rules.codec, rules.compression_level) == (codec, level)

    @pytest.mark.parametrize(
        ("texts", "reads_records"),
        [
            ({}, False),
            ({"cleanup_policy": "compact"}, True),
            ({"message_timestamp_before_max_ms": "1"}, True),
            ({"message_timestamp_after_max_ms": "1"}, True),
            ({"message_timestamp_difference_max_ms": "1"}, True),
            (
                {"message_timestamp_type": "LogAppendTime", "message_timestamp_after_max_ms": "1"},
                False,
            ),
            ({"compression_type": "gzip"}, False),
        ],
    )
    def test_settings_that_require_record_validation(self, texts, reads_records):
        assert append_rules_for(topic(**texts)).requires_record_validation is reads_records
