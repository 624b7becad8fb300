"""Settings as DescribeConfigs shows them: text, source and synonyms."""

from odradek.config.definition import Layer
from odradek.config.settings import Synonym
from tests.config.log_tables import LogSettings, TopicSettings, on_disk


def test_the_whole_is_what_a_kafka_broker_described():
    server = LogSettings.read(
        {
            Layer.BROKER: {"log.retention.ms": "5000000"},
            Layer.CLUSTER: {"log.segment.bytes": "40000000"},
            Layer.FILE: {"log.retention.hours": "24", "log.segment.bytes": "20000000 "},
        }
    )
    topic = TopicSettings.read({Layer.TOPIC: {"segment.bytes": " 30000000"}}, server=[server])
    assert topic.describe("segment.bytes").synonyms == (
        Synonym("segment.bytes", "30000000", Layer.TOPIC),
        Synonym("log.segment.bytes", "40000000", Layer.CLUSTER),
        Synonym("log.segment.bytes", "20000000 ", Layer.FILE),
        Synonym("log.segment.bytes", "1073741824", Layer.DEFAULT),
    )
    assert topic.describe("retention.ms").text == "5000000"
    assert topic.describe("retention.ms").synonyms == (
        Synonym("log.retention.ms", "5000000", Layer.BROKER),
        Synonym("log.retention.hours", "24", Layer.FILE),
        Synonym("log.retention.hours", "168", Layer.DEFAULT),
    )


def test_a_value_from_a_coarser_unit_passes_for_a_default_as_in_kafka():
    topic = TopicSettings.read({}, server=[on_disk(log_retention_hours="24")])
    described = topic.describe("retention.ms")
    assert (described.text, described.layer, described.synonyms) == (
        "86400000",
        Layer.DEFAULT,
        (),
    )


def test_a_default_is_described_as_such():
    described = LogSettings().describe("log.segment.bytes")
    assert (described.text, described.layer) == ("1073741824", Layer.DEFAULT)
    assert described.synonyms == (Synonym("log.segment.bytes", "1073741824", Layer.DEFAULT),)


def test_every_layer_that_says_something_is_listed_the_strongest_first():
    settings = on_disk(log_segment_bytes=" 20 ")
    settings = settings.with_changes({"log.segment.bytes": "30"}, layer=Layer.BROKER)
    described = settings.describe("log.segment.bytes")
    assert (described.text, described.layer) == ("30", Layer.BROKER)
    assert described.synonyms == (
        Synonym("log.segment.bytes", "30", Layer.BROKER),
        Synonym("log.segment.bytes", " 20 ", Layer.FILE),
        Synonym("log.segment.bytes", "1073741824", Layer.DEFAULT),
    )


def test_a_setting_left_to_another_unit_has_no_text_of_its_own():
    described = LogSettings().describe("log.retention.ms")
    assert (described.text, described.layer, described.synonyms) == (None, Layer.DEFAULT, ())


def test_a_setting_lists_the_coarser_units_after_itself():
    layers = {Layer.FILE: {"log.retention.hours": "2", "log.retention.ms": "4"}}
    described = LogSettings.read(layers).describe("log.retention.ms")
    assert described.synonyms == (
        Synonym("log.retention.ms", "4", Layer.FILE),
        Synonym("log.retention.hours", "2", Layer.FILE),
        Synonym("log.retention.hours", "168", Layer.DEFAULT),
    )


def test_a_topics_value_stands_before_its_servers():
    server = on_disk(log_segment_bytes="20")
    topic = TopicSettings.read({Layer.TOPIC: {"segment.bytes": " 30"}}, server=[server])
    described = topic.describe("segment.bytes")
    assert (described.text, described.layer) == ("30", Layer.TOPIC)
    assert described.synonyms == (
        Synonym("segment.bytes", "30", Layer.TOPIC),
        Synonym("log.segment.bytes", "20", Layer.FILE),
        Synonym("log.segment.bytes", "1073741824", Layer.DEFAULT),
    )


def test_a_topic_shows_where_its_server_has_the_value_from():
    topic = TopicSettings.read({}, server=[on_disk(log_segment_bytes="20")])
    described = topic.describe("segment.bytes")
    assert (described.text, described.layer) == ("20", Layer.FILE)


def test_a_topics_setting_that_no_server_has_lists_no_default():
    described = TopicSettings.read({}, server=[LogSettings()]).describe("remote.storage.enable")
    assert (described.text, described.layer, described.synonyms) == (
        "false",
        Layer.DEFAULT,
        (),
    )


def test_a_secret_is_listed_without_its_text():
    described = on_disk(ssl_key_password="hunter2").describe("ssl.key.password")
    assert (described.text, described.setting.sensitive) == (None, True)
    assert described.synonyms == (Synonym("ssl.key.password", None, Layer.FILE),)


def test_only_what_can_never_change_is_read_only():
    assert LogSettings().describe("log.dir").read_only
    assert not LogSettings().describe("ssl.key.password").read_only
    assert not TopicSettings().describe("retention.ms").read_only
