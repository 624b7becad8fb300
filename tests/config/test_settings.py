"""Settings tables: sources, fallbacks, topic settings over broker settings, dynamic changes."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest

from odradek.config.definition import ConfigSource, SettingError, integer, text, text_list, value_of
from odradek.config.settings import Settings, unknown_names
from odradek.config.types import Password
from tests.config.log_tables import HOUR_MS, LogSettings, TopicSettings, on_disk


class NamedSettings(Settings):
    cluster: str = text("cluster.name", doc="Nobody can guess it.")


class TestValues:
    def test_empty_input_gives_every_default(self):
        settings = LogSettings.read({})
        assert settings.segment_bytes == 1 << 30
        assert settings.key_password is None

    def test_text_becomes_a_typed_value(self):
        settings = LogSettings.read({ConfigSource.FILE: {"log.segment.bytes": " 4096 "}})
        assert settings.segment_bytes == 4096

    def test_source_with_the_highest_precedence_wins(self):
        layers = {
            ConfigSource.FILE: {"log.segment.bytes": "14"},
            ConfigSource.BROKER: {"log.segment.bytes": "16"},
            ConfigSource.CLUSTER: {"log.segment.bytes": "15"},
        }
        assert LogSettings.read(layers).segment_bytes == 16
        del layers[ConfigSource.BROKER]
        assert LogSettings.read(layers).segment_bytes == 15

    def test_invalid_value_in_the_file_is_rejected(self):
        with pytest.raises(SettingError, match=r"log.segment.bytes=13: must be at least 14"):
            on_disk(log_segment_bytes="13")

    def test_invalid_value_is_rejected_although_another_source_overrides_it(self):
        layers = {
            ConfigSource.BROKER: {"log.segment.bytes": "16"},
            ConfigSource.FILE: {"log.segment.bytes": "13"},
        }
        with pytest.raises(SettingError, match=r"log.segment.bytes=13: must be at least 14"):
            LogSettings.read(layers)

    def test_missing_required_setting_is_rejected(self):
        with pytest.raises(SettingError, match=r"cluster.name: must be given"):
            NamedSettings.read({})
        assert NamedSettings.read({ConfigSource.FILE: {"cluster.name": "a"}}).cluster == "a"

    def test_names_of_other_tables_are_ignored(self):
        assert on_disk(zookeeper_connect="localhost") == LogSettings()

    def test_unknown_names_are_returned_in_their_order(self):
        names = ["z", "log.dir", "segment.bytes", "a"]
        assert unknown_names(names, [LogSettings, TopicSettings]) == ["z", "a"]

    def test_rules_between_settings_can_be_added(self):
        class Ordered(Settings):
            low: int = integer("low", default=1, doc="Low.")
            high: int = integer("high", default=2, doc="High.")

            def check(self):
                if self.low > self.high:
                    raise SettingError("low", str(self.low), f"must be at most high={self.high}")

        with pytest.raises(SettingError, match="low=3: must be at most high=2"):
            Ordered(low=3)


class TestFallbacks:
    @pytest.mark.parametrize(
        ("texts", "retention_ms"),
        [
            ({}, 168 * HOUR_MS),
            ({"log_retention_hours": "2"}, 2 * HOUR_MS),
            ({"log_retention_hours": "2", "log_retention_minutes": "3"}, 3 * 60_000),
            ({"log_retention_hours": "2", "log_retention_ms": "4"}, 4),
        ],
    )
    def test_finest_unit_that_is_set_wins(self, texts, retention_ms):
        assert on_disk(**texts).retention_ms == retention_ms

    def test_source_precedence_wins_over_a_finer_unit(self):
        layers = {
            ConfigSource.CLUSTER: {"log.retention.minutes": "1"},
            ConfigSource.FILE: {"log.retention.ms": "4"},
        }
        assert LogSettings.read(layers).retention_ms == 60_000

    def test_missing_required_setting_at_the_end_of_a_fallback_chain_is_rejected(self):
        class Chain(Settings):
            first: str = text("first", default=value_of("second"), doc="First.")
            second: str = text("second", doc="Second.")

        with pytest.raises(SettingError, match="second: must be given"):
            Chain.read({})
        assert Chain.read({ConfigSource.FILE: {"second": "a"}}).first == "a"

    def test_rule_also_applies_to_a_value_set_in_another_unit(self):
        with pytest.raises(SettingError, match=r"log.retention.ms=0: must not be 0"):
            on_disk(log_retention_hours="0")

    def test_removing_a_dynamic_value_restores_the_fallback(self):
        settings = on_disk(log_retention_hours="2")
        changed = settings.with_changes({"log.retention.ms": "5"}, source=ConfigSource.BROKER)
        assert changed.retention_ms == 5
        restored = changed.with_changes({"log.retention.ms": None}, source=ConfigSource.BROKER)
        assert restored.retention_ms == 2 * HOUR_MS

    def test_text_falls_back_without_a_multiplier(self):
        class Directories(Settings):
            one: str = text("log.dir", default="a", doc="One.")
            many: str = text("log.dirs", default=value_of("log.dir"), doc="Many.")

        assert Directories(one="b").many == "b"

    def test_fallback_chain_that_ends_in_none_gives_none(self):
        class Chain(Settings):
            first: int | None = integer("first", default=value_of("second"), doc="First.")
            second: int | None = integer("second", default=None, doc="Second.")

        assert Chain().first is None

    def test_fallback_to_an_unknown_setting_is_rejected(self):
        with pytest.raises(TypeError, match="Lost: a cannot fall back to b"):

            class Lost(Settings):
                a: int = integer("a", default=value_of("b"), doc="Any.")

    def test_circular_fallbacks_are_rejected(self):
        with pytest.raises(TypeError, match="Circle: a cannot fall back to a"):

            class Circle(Settings):
                a: int = integer("a", default=value_of("b"), doc="Any.")
                b: int = integer("b", default=value_of("a"), doc="Any.")

    def test_table_that_extends_another_is_rejected(self):
        with pytest.raises(
            TypeError, match="More extends LogSettings, but a table cannot extend another"
        ):

            class More(LogSettings):
                more: int = integer("more", default=1, doc="Any.")

    def test_settings_declared_in_a_plain_base_class_are_rejected(self):
        class Mixed:
            lost: int = integer("lost", default=1, doc="Any.")

        with pytest.raises(TypeError, match="Table extends Mixed"):

            class Table(Mixed, Settings):
                pass

    def test_duplicate_setting_name_is_rejected(self):
        with pytest.raises(TypeError, match="Twice declares one name twice"):

            class Twice(Settings):
                a: int = integer("a", default=1, doc="Any.")
                b: int = integer("a", default=2, doc="Any.")


class TestTopics:
    def test_topic_inherits_the_broker_value_of_an_unset_setting(self):
        server = on_disk(log_segment_bytes="4096", log_retention_hours="2")
        topic = TopicSettings.read(
            {ConfigSource.TOPIC: {"segment.bytes": "100"}}, server_tables=[server]
        )
        assert topic.segment_bytes == 100
        assert topic.retention_ms == 2 * HOUR_MS

    def test_topic_without_a_broker_uses_its_default(self):
        assert TopicSettings().retention_ms == 168 * HOUR_MS

    def test_broker_change_reaches_the_topic(self):
        server = on_disk(log_segment_bytes="4096")
        topic = TopicSettings.read(
            {ConfigSource.TOPIC: {"retention.ms": "7"}}, server_tables=[server]
        )
        server = server.with_changes({"log.segment.bytes": "5000"}, source=ConfigSource.CLUSTER)
        topic = topic.with_server_tables([server])
        assert (topic.segment_bytes, topic.retention_ms) == (5000, 7)

    def test_topic_change_keeps_the_broker_values(self):
        topic = TopicSettings.read({}, server_tables=[on_disk(log_segment_bytes="4096")])
        changed = topic.with_changes({"retention.ms": "7"}, source=ConfigSource.TOPIC)
        assert (changed.segment_bytes, changed.retention_ms) == (4096, 7)
        assert topic.retention_ms == 168 * HOUR_MS

    def test_topic_setting_cannot_change_for_a_broker(self):
        with pytest.raises(SettingError, match="is per-topic: it cannot be changed for the broker"):
            TopicSettings().with_changes({"retention.ms": "7"}, source=ConfigSource.BROKER)


class TestChanges:
    def test_change_returns_a_new_table_and_keeps_the_old(self):
        settings = LogSettings()
        changed = settings.with_changes({"log.segment.bytes": "99"}, source=ConfigSource.CLUSTER)
        assert (settings.segment_bytes, changed.segment_bytes) == (1 << 30, 99)

    def test_changes_accumulate(self):
        settings = LogSettings().with_changes(
            {"log.segment.bytes": "99"}, source=ConfigSource.CLUSTER
        )
        settings = settings.with_changes({"log.retention.ms": "5"}, source=ConfigSource.CLUSTER)
        assert (settings.segment_bytes, settings.retention_ms) == (99, 5)

    def test_invalid_change_is_rejected(self):
        with pytest.raises(SettingError, match=r"log.segment.bytes=1: must be at least 14"):
            LogSettings().with_changes({"log.segment.bytes": "1"}, source=ConfigSource.CLUSTER)

    @pytest.mark.parametrize("text_value", ["0", None])
    def test_change_of_an_unknown_setting_is_rejected(self, text_value):
        with pytest.raises(SettingError, match=r"num.io.threads: is not a setting of LogSettings"):
            LogSettings().with_changes({"num.io.threads": text_value}, source=ConfigSource.BROKER)

    @pytest.mark.parametrize(
        ("name", "source", "message"),
        [
            (
                "log.dir",
                ConfigSource.BROKER,
                "log.dir=x: is read-only: it cannot be changed for the broker",
            ),
            ("log.dir", ConfigSource.CLUSTER, "log.dir=x: is read-only: .* for the cluster"),
            (
                "log.segment.bytes",
                ConfigSource.FILE,
                "is cluster-wide: it cannot be changed for the file",
            ),
            (
                "ssl.key.password",
                ConfigSource.CLUSTER,
                r"ssl.key.password=\[hidden\]: is per-broker: ",
            ),
        ],
    )
    def test_change_that_the_update_mode_forbids_is_rejected(self, name, source, message):
        with pytest.raises(SettingError, match=message):
            LogSettings().with_changes({name: "x"}, source=source)

    def test_per_broker_setting_changes_for_the_broker(self):
        settings = LogSettings().with_changes({"ssl.key.password": "x"}, source=ConfigSource.BROKER)
        assert settings.key_password == Password("x")


class TestInstances:
    def test_values_can_be_passed_as_python_objects(self):
        settings = LogSettings(segment_bytes=99, dirs=("a", "b"), key_password=Password("x"))
        assert (settings.segment_bytes, settings.dirs) == (99, ("a", "b"))
        assert settings.key_password == Password("x")
        assert settings.describe("log.segment.bytes").source is ConfigSource.FILE
        assert (
            TopicSettings(segment_bytes=99).describe("segment.bytes").source is ConfigSource.TOPIC
        )

    def test_python_values_are_checked_too(self):
        with pytest.raises(SettingError, match="must be at least 14"):
            LogSettings(segment_bytes=13)

    def test_list_element_with_a_comma_is_rejected(self):
        rule = r"log.dirs: must have no comma within an element"
        with pytest.raises(SettingError, match=rule):
            LogSettings(dirs=("a,b", "c"))
        with pytest.raises(SettingError, match=rule):
            text_list("log.dirs", default=("a,b",), doc="All.")

    def test_unknown_attribute_is_rejected(self):
        with pytest.raises(TypeError, match="LogSettings has no segment_size"):
            LogSettings(segment_size=99)

    def test_attributes_cannot_be_assigned_or_deleted(self):
        settings = LogSettings()
        with pytest.raises(FrozenInstanceError):
            settings.segment_bytes = 99
        with pytest.raises(FrozenInstanceError):
            del settings.segment_bytes

    def test_tables_compare_by_effective_values(self):
        assert on_disk(log_retention_hours="2") == on_disk(log_retention_hours=" 2")
        assert hash(on_disk(log_dir="a")) == hash(LogSettings(dir="a"))
        assert LogSettings() != LogSettings(dir="a")
        assert LogSettings() != TopicSettings()

    def test_repr_shows_the_changed_values_and_no_password(self):
        settings = LogSettings(dir="a", retention_ms=5, key_password=Password("hunter2"))
        assert repr(settings) == (
            "LogSettings(dir='a', retention_minutes=10080, retention_ms=5, key_password=[hidden])"
        )

    @pytest.mark.parametrize(
        "copy_table", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]
    )
    def test_table_survives_pickling_and_copying(self, copy_table):
        topic = TopicSettings.read({}, server_tables=[on_disk(log_segment_bytes="20")])
        copied = copy_table(topic)
        assert copied == topic
        assert copied.describe("segment.bytes") == topic.describe("segment.bytes")
