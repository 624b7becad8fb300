"""Settings as DescribeConfigs returns them: value, source and synonyms."""

from odradek.config.definition import ConfigSource
from odradek.config.settings import ConfigSynonym
from tests.config.log_tables import LogSettings, TopicSettings, on_disk


def test_synonyms_match_those_of_a_kafka_broker():
    server = LogSettings.read(
        {
            ConfigSource.BROKER: {"log.retention.ms": "5000000"},
            ConfigSource.CLUSTER: {"log.segment.bytes": "40000000"},
            ConfigSource.FILE: {"log.retention.hours": "24", "log.segment.bytes": "20000000 "},
        }
    )
    topic = TopicSettings.read(
        {ConfigSource.TOPIC: {"segment.bytes": " 30000000"}}, server_tables=[server]
    )
    assert topic.describe("segment.bytes").synonyms == (
        ConfigSynonym("segment.bytes", "30000000", ConfigSource.TOPIC),
        ConfigSynonym("log.segment.bytes", "40000000", ConfigSource.CLUSTER),
        ConfigSynonym("log.segment.bytes", "20000000 ", ConfigSource.FILE),
        ConfigSynonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    )
    assert topic.describe("retention.ms").value == "5000000"
    assert topic.describe("retention.ms").synonyms == (
        ConfigSynonym("log.retention.ms", "5000000", ConfigSource.BROKER),
        ConfigSynonym("log.retention.hours", "24", ConfigSource.FILE),
        ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    )


def test_value_from_a_coarser_unit_is_described_as_a_default_as_in_kafka():
    topic = TopicSettings.read({}, server_tables=[on_disk(log_retention_hours="24")])
    described = topic.describe("retention.ms")
    assert (described.value, described.source, described.synonyms) == (
        "86400000",
        ConfigSource.DEFAULT,
        (),
    )


def test_default_is_described_as_such():
    described = LogSettings().describe("log.segment.bytes")
    assert (described.value, described.source) == ("1073741824", ConfigSource.DEFAULT)
    assert described.synonyms == (
        ConfigSynonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    )


def test_every_source_with_a_value_is_listed_in_order_of_precedence():
    settings = on_disk(log_segment_bytes=" 20 ")
    settings = settings.with_changes({"log.segment.bytes": "30"}, source=ConfigSource.BROKER)
    described = settings.describe("log.segment.bytes")
    assert (described.value, described.source) == ("30", ConfigSource.BROKER)
    assert described.synonyms == (
        ConfigSynonym("log.segment.bytes", "30", ConfigSource.BROKER),
        ConfigSynonym("log.segment.bytes", " 20 ", ConfigSource.FILE),
        ConfigSynonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    )


def test_setting_that_falls_back_to_another_unit_has_no_value():
    described = LogSettings().describe("log.retention.ms")
    assert (described.value, described.source, described.synonyms) == (
        None,
        ConfigSource.DEFAULT,
        (),
    )


def test_setting_lists_the_coarser_units_after_itself():
    layers = {ConfigSource.FILE: {"log.retention.hours": "2", "log.retention.ms": "4"}}
    described = LogSettings.read(layers).describe("log.retention.ms")
    assert described.synonyms == (
        ConfigSynonym("log.retention.ms", "4", ConfigSource.FILE),
        ConfigSynonym("log.retention.hours", "2", ConfigSource.FILE),
        ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    )


def test_topic_value_is_listed_before_the_broker_value():
    server = on_disk(log_segment_bytes="20")
    topic = TopicSettings.read(
        {ConfigSource.TOPIC: {"segment.bytes": " 30"}}, server_tables=[server]
    )
    described = topic.describe("segment.bytes")
    assert (described.value, described.source) == ("30", ConfigSource.TOPIC)
    assert described.synonyms == (
        ConfigSynonym("segment.bytes", "30", ConfigSource.TOPIC),
        ConfigSynonym("log.segment.bytes", "20", ConfigSource.FILE),
        ConfigSynonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    )


def test_topic_shows_the_source_of_the_broker_value():
    topic = TopicSettings.read({}, server_tables=[on_disk(log_segment_bytes="20")])
    described = topic.describe("segment.bytes")
    assert (described.value, described.source) == ("20", ConfigSource.FILE)


def test_topic_setting_without_a_broker_synonym_lists_no_default():
    described = TopicSettings.read({}, server_tables=[LogSettings()]).describe(
        "remote.storage.enable"
    )
    assert (described.value, described.source, described.synonyms) == (
        "false",
        ConfigSource.DEFAULT,
        (),
    )


def test_password_is_listed_without_its_value():
    described = on_disk(ssl_key_password="hunter2").describe("ssl.key.password")
    assert (described.value, described.setting.sensitive) == (None, True)
    assert described.synonyms == (ConfigSynonym("ssl.key.password", None, ConfigSource.FILE),)


def test_only_settings_that_cannot_change_are_read_only():
    assert LogSettings().describe("log.dir").read_only
    assert not LogSettings().describe("ssl.key.password").read_only
    assert not TopicSettings().describe("retention.ms").read_only
