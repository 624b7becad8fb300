"""One setting: what it accepts, and the words in which it refuses."""

import pickle

import pytest

from odradek.config.definition import (
    SettingError,
    Update,
    boolean,
    choice,
    class_name,
    integer,
    long,
    number,
    password,
    short,
    text,
    text_list,
    value_of,
)
from odradek.config.kinds import Kind, Password


def refusal(setting, written):
    with pytest.raises(SettingError) as refused:
        setting.parse(written)
    return str(refused.value)


def no_gap(level):
    return None if level == -1 or 1 <= level <= 9 else "must be -1 or between 1 and 9"


@pytest.mark.parametrize(
    ("setting", "written", "complaint"),
    [
        (
            integer("num.network.threads", default=1, at_least=1, doc="Processors."),
            "0",
            "num.network.threads=0: must be at least 1",
        ),
        (
            integer("num.network.threads", default=1, doc="Processors."),
            "many",
            "num.network.threads=many: must be a whole number from -2147483648 to 2147483647",
        ),
        (
            integer("compression.lz4.level", default=9, at_least=1, at_most=17, doc="Effort."),
            " 18 ",
            "compression.lz4.level=18: must be between 1 and 17",
        ),
        (
            integer("compression.gzip.level", default=-1, check=no_gap, doc="Effort."),
            "0",
            "compression.gzip.level=0: must be -1 or between 1 and 9",
        ),
        (
            short("group.share.max.size", default=200, at_most=1000, doc="Members."),
            "1001",
            "group.share.max.size=1001: must be at most 1000",
        ),
        (
            number("log.cleaner.min.cleanable.ratio", default=0.5, at_most=1, doc="Dirt."),
            "1.5",
            "log.cleaner.min.cleanable.ratio=1.5: must be at most 1",
        ),
        (
            boolean("log.preallocate", default=False, doc="Whole segments at once."),
            "on",
            "log.preallocate=on: must be true or false",
        ),
        (
            choice("log.message.timestamp.type", ["CreateTime", "LogAppendTime"], doc="Whose."),
            "createtime",
            "log.message.timestamp.type=createtime: must be one of CreateTime, LogAppendTime",
        ),
        (
            text_list("cleanup.policy", one_of=("compact", "delete"), doc="What to drop."),
            "delete, shred",
            "cleanup.policy=delete,shred: must be one of compact, delete",
        ),
        (
            text_list("log.dirs", non_empty=True, doc="Where."),
            "  ",
            "log.dirs=: must not be empty",
        ),
        (
            text("zookeeper.connect", default=None, non_empty=True, doc="Where."),
            "",
            "zookeeper.connect=: must not be empty",
        ),
    ],
)
def test_a_refusal_names_the_key_the_value_and_the_rule(setting, written, complaint):
    assert refusal(setting, written) == complaint


@pytest.mark.parametrize(
    ("setting", "written", "value"),
    [
        (integer("compression.gzip.level", default=-1, check=no_gap, doc="Effort."), "9", 9),
        (long("log.retention.bytes", default=-1, doc="Size."), "99999999999", 99999999999),
        (text_list("cleanup.policy", one_of={"compact", "delete"}, doc="What."), "", ()),
        (text("a", default="", doc="Text."), " b ", "b"),
        (password("a", default=None, doc="Secret."), "b", Password("b")),
    ],
)
def test_what_keeps_the_rules_is_accepted(setting, written, value):
    assert setting.parse(written) == value


@pytest.mark.parametrize(
    ("specifier", "kind"),
    [
        (boolean, Kind.BOOLEAN),
        (short, Kind.SHORT),
        (integer, Kind.INT),
        (long, Kind.LONG),
        (number, Kind.DOUBLE),
        (text, Kind.STRING),
        (class_name, Kind.CLASS),
        (text_list, Kind.LIST),
        (password, Kind.PASSWORD),
    ],
)
def test_each_specifier_is_of_its_kind(specifier, kind):
    assert specifier("a", default=None, doc="Any.").kind is kind


def test_a_choice_is_text_to_clients():
    assert choice("a", ["b"], doc="One.").kind is Kind.STRING


def test_a_default_that_breaks_the_rule_is_refused_at_once():
    with pytest.raises(SettingError, match="threads=0: must be at least 1"):
        integer("threads", default=0, at_least=1, doc="Wrong.")


@pytest.mark.parametrize("default", [None, value_of("elsewhere")])
def test_a_default_that_is_no_value_of_its_own_is_not_checked(default):
    assert integer("a", default=default, at_least=1, doc="Any.").plain_default is None


def test_a_setting_is_read_only_unless_it_says_otherwise():
    assert integer("a", default=1, doc="Any.").update is Update.READ_ONLY


def test_a_secret_is_never_shown():
    setting = password("ssl.key.password", default=None, doc="Secret.")
    assert setting.sensitive
    assert setting.shown(Password("hunter2")) is None


def test_a_refusal_survives_pickling():
    twin = pickle.loads(pickle.dumps(SettingError("a.b", "0", "must be at least 1")))
    assert str(twin) == "a.b=0: must be at least 1"
    assert (twin.name, twin.rule) == ("a.b", "must be at least 1")
