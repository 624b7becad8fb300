"""Tables of settings: layers, fallbacks, a topic on top of its server, dynamic change."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest

from odradek.config.definition import Layer, SettingError, integer, text, text_list, value_of
from odradek.config.kinds import Password
from odradek.config.settings import Settings, unknown_names
from tests.config.log_tables import HOUR_MS, LogSettings, TopicSettings, on_disk


class NamedSettings(Settings):
    cluster: str = text("cluster.name", doc="Nobody can guess it.")


class TestValues:
    def test_nothing_written_is_every_default(self):
        settings = LogSettings.read({})
        assert settings.segment_bytes == 1 << 30
        assert settings.key_password is None

    def test_text_becomes_a_typed_value(self):
        settings = LogSettings.read({Layer.FILE: {"log.segment.bytes": " 4096 "}})
        assert settings.segment_bytes == 4096

    def test_the_strongest_layer_counts(self):
        layers = {
            Layer.FILE: {"log.segment.bytes": "14"},
            Layer.BROKER: {"log.segment.bytes": "16"},
            Layer.CLUSTER: {"log.segment.bytes": "15"},
        }
        assert LogSettings.read(layers).segment_bytes == 16
        del layers[Layer.BROKER]
        assert LogSettings.read(layers).segment_bytes == 15

    def test_a_bad_value_in_the_file_is_refused(self):
        with pytest.raises(SettingError, match=r"log.segment.bytes=13: must be at least 14"):
            on_disk(log_segment_bytes="13")

    def test_a_bad_value_that_a_stronger_layer_hides_is_refused_all_the_same(self):
        layers = {
            Layer.BROKER: {"log.segment.bytes": "16"},
            Layer.FILE: {"log.segment.bytes": "13"},
        }
        with pytest.raises(SettingError, match=r"log.segment.bytes=13: must be at least 14"):
            LogSettings.read(layers)

    def test_what_must_be_given_is_demanded(self):
        with pytest.raises(SettingError, match=r"cluster.name: must be given"):
            NamedSettings.read({})
        assert NamedSettings.read({Layer.FILE: {"cluster.name": "a"}}).cluster == "a"

    def test_names_of_other_tables_are_left_alone(self):
        assert on_disk(zookeeper_connect="localhost") == LogSettings()

    def test_unknown_names_are_told_in_their_order(self):
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
    def test_the_finest_unit_that_was_written_counts(self, texts, retention_ms):
        assert on_disk(**texts).retention_ms == retention_ms

    def test_a_stronger_layer_counts_for_more_than_a_finer_unit(self):
        layers = {
            Layer.CLUSTER: {"log.retention.minutes": "1"},
            Layer.FILE: {"log.retention.ms": "4"},
        }
        assert LogSettings.read(layers).retention_ms == 60_000

    def test_what_must_be_given_is_demanded_at_the_end_of_a_chain(self):
        class Chain(Settings):
            first: str = text("first", default=value_of("second"), doc="First.")
            second: str = text("second", doc="Second.")

        with pytest.raises(SettingError, match="second: must be given"):
            Chain.read({})
        assert Chain.read({Layer.FILE: {"second": "a"}}).first == "a"

    def test_the_rule_also_binds_what_was_written_in_another_unit(self):
        with pytest.raises(SettingError, match=r"log.retention.ms=0: must not be 0"):
            on_disk(log_retention_hours="0")

    def test_removing_a_dynamic_value_uncovers_the_chain(self):
        settings = on_disk(log_retention_hours="2")
        changed = settings.with_changes({"log.retention.ms": "5"}, layer=Layer.BROKER)
        assert changed.retention_ms == 5
        restored = changed.with_changes({"log.retention.ms": None}, layer=Layer.BROKER)
        assert restored.retention_ms == 2 * HOUR_MS

    def test_text_falls_back_unmultiplied(self):
        class Directories(Settings):
            one: str = text("log.dir", default="a", doc="One.")
            many: str = text("log.dirs", default=value_of("log.dir"), doc="Many.")

        assert Directories(one="b").many == "b"

    def test_a_chain_that_ends_in_nothing_is_nothing(self):
        class Chain(Settings):
            first: int | None = integer("first", default=value_of("second"), doc="First.")
            second: int | None = integer("second", default=None, doc="Second.")

        assert Chain().first is None

    def test_a_table_with_a_fallback_to_nowhere_is_refused(self):
        with pytest.raises(TypeError, match="Lost: a cannot fall back to b"):

            class Lost(Settings):
                a: int = integer("a", default=value_of("b"), doc="Any.")

    def test_a_table_whose_fallbacks_run_in_a_circle_is_refused(self):
        with pytest.raises(TypeError, match="Circle: a cannot fall back to a"):

            class Circle(Settings):
                a: int = integer("a", default=value_of("b"), doc="Any.")
                b: int = integer("b", default=value_of("a"), doc="Any.")

    def test_a_table_that_extends_another_is_refused(self):
        with pytest.raises(TypeError, match="More extends LogSettings, but a table stands alone"):

            class More(LogSettings):
                more: int = integer("more", default=1, doc="Any.")

    def test_settings_of_a_class_that_is_no_table_are_refused_too(self):
        class Mixed:
            lost: int = integer("lost", default=1, doc="Any.")

        with pytest.raises(TypeError, match="Table extends Mixed"):

            class Table(Mixed, Settings):
                pass

    def test_a_table_with_one_name_twice_is_refused(self):
        with pytest.raises(TypeError, match="Twice declares one name twice"):

            class Twice(Settings):
                a: int = integer("a", default=1, doc="Any.")
                b: int = integer("a", default=2, doc="Any.")


class TestTopics:
    def test_what_a_topic_does_not_say_its_server_says(self):
        server = on_disk(log_segment_bytes="4096", log_retention_hours="2")
        topic = TopicSettings.read({Layer.TOPIC: {"segment.bytes": "100"}}, server=[server])
        assert topic.segment_bytes == 100
        assert topic.retention_ms == 2 * HOUR_MS

    def test_without_a_server_its_own_default_counts(self):
        assert TopicSettings().retention_ms == 168 * HOUR_MS

    def test_a_change_of_the_server_reaches_the_topic(self):
        server = on_disk(log_segment_bytes="4096")
        topic = TopicSettings.read({Layer.TOPIC: {"retention.ms": "7"}}, server=[server])
        server = server.with_changes({"log.segment.bytes": "5000"}, layer=Layer.CLUSTER)
        topic = topic.with_server([server])
        assert (topic.segment_bytes, topic.retention_ms) == (5000, 7)

    def test_a_change_of_the_topic_keeps_its_server(self):
        topic = TopicSettings.read({}, server=[on_disk(log_segment_bytes="4096")])
        changed = topic.with_changes({"retention.ms": "7"}, layer=Layer.TOPIC)
        assert (changed.segment_bytes, changed.retention_ms) == (4096, 7)
        assert topic.retention_ms == 168 * HOUR_MS

    def test_a_topics_settings_change_for_the_topic_only(self):
        with pytest.raises(SettingError, match="is per-topic: it cannot be changed for the broker"):
            TopicSettings().with_changes({"retention.ms": "7"}, layer=Layer.BROKER)


class TestChanges:
    def test_a_change_makes_a_new_table_and_leaves_the_old(self):
        settings = LogSettings()
        changed = settings.with_changes({"log.segment.bytes": "99"}, layer=Layer.CLUSTER)
        assert (settings.segment_bytes, changed.segment_bytes) == (1 << 30, 99)

    def test_changes_accumulate(self):
        settings = LogSettings().with_changes({"log.segment.bytes": "99"}, layer=Layer.CLUSTER)
        settings = settings.with_changes({"log.retention.ms": "5"}, layer=Layer.CLUSTER)
        assert (settings.segment_bytes, settings.retention_ms) == (99, 5)

    def test_a_bad_change_is_refused(self):
        with pytest.raises(SettingError, match=r"log.segment.bytes=1: must be at least 14"):
            LogSettings().with_changes({"log.segment.bytes": "1"}, layer=Layer.CLUSTER)

    @pytest.mark.parametrize("written", ["0", None])
    def test_a_change_of_what_the_table_lacks_is_refused(self, written):
        with pytest.raises(SettingError, match=r"num.io.threads: is no setting of LogSettings"):
            LogSettings().with_changes({"num.io.threads": written}, layer=Layer.BROKER)

    @pytest.mark.parametrize(
        ("name", "layer", "complaint"),
        [
            (
                "log.dir",
                Layer.BROKER,
                "log.dir=x: is read-only: it cannot be changed for the broker",
            ),
            ("log.dir", Layer.CLUSTER, "log.dir=x: is read-only: .* for the cluster"),
            ("log.segment.bytes", Layer.FILE, "is cluster-wide: it cannot be changed for the file"),
            ("ssl.key.password", Layer.CLUSTER, r"ssl.key.password=\[hidden\]: is per-broker: "),
        ],
    )
    def test_what_cannot_change_there_is_refused(self, name, layer, complaint):
        with pytest.raises(SettingError, match=complaint):
            LogSettings().with_changes({name: "x"}, layer=layer)

    def test_what_is_per_broker_changes_for_the_broker(self):
        settings = LogSettings().with_changes({"ssl.key.password": "x"}, layer=Layer.BROKER)
        assert settings.key_password == Password("x")


class TestInstances:
    def test_values_can_be_given_as_python_has_them(self):
        settings = LogSettings(segment_bytes=99, dirs=("a", "b"), key_password=Password("x"))
        assert (settings.segment_bytes, settings.dirs) == (99, ("a", "b"))
        assert settings.key_password == Password("x")
        assert settings.describe("log.segment.bytes").layer is Layer.FILE
        assert TopicSettings(segment_bytes=99).describe("segment.bytes").layer is Layer.TOPIC

    def test_values_given_so_keep_the_rules_too(self):
        with pytest.raises(SettingError, match="must be at least 14"):
            LogSettings(segment_bytes=13)

    def test_a_list_whose_text_would_be_another_is_refused(self):
        rule = r"log.dirs: must have no comma within an element"
        with pytest.raises(SettingError, match=rule):
            LogSettings(dirs=("a,b", "c"))
        with pytest.raises(SettingError, match=rule):
            text_list("log.dirs", default=("a,b",), doc="All.")

    def test_an_attribute_that_does_not_exist_is_refused(self):
        with pytest.raises(TypeError, match="LogSettings has no segment_size"):
            LogSettings(segment_size=99)

    def test_nothing_can_be_assigned_or_deleted(self):
        settings = LogSettings()
        with pytest.raises(FrozenInstanceError):
            settings.segment_bytes = 99
        with pytest.raises(FrozenInstanceError):
            del settings.segment_bytes

    def test_the_values_in_force_make_two_tables_equal(self):
        assert on_disk(log_retention_hours="2") == on_disk(log_retention_hours=" 2")
        assert hash(on_disk(log_dir="a")) == hash(LogSettings(dir="a"))
        assert LogSettings() != LogSettings(dir="a")
        assert LogSettings() != TopicSettings()

    def test_printing_shows_what_differs_from_the_defaults_and_no_secret(self):
        settings = LogSettings(dir="a", retention_ms=5, key_password=Password("hunter2"))
        assert repr(settings) == (
            "LogSettings(dir='a', retention_minutes=10080, retention_ms=5, key_password=[hidden])"
        )

    @pytest.mark.parametrize("travel", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
    def test_a_table_survives_pickling_and_copying(self, travel):
        topic = TopicSettings.read({}, server=[on_disk(log_segment_bytes="20")])
        twin = travel(topic)
        assert twin == topic
        assert twin.describe("segment.bytes") == topic.describe("segment.bytes")
