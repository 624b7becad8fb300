"""One setting: the values that it accepts and the error messages for the others."""

import pickle

import pytest

from odradek.config.definition import (
    SettingError,
    UpdateMode,
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
from odradek.config.types import ConfigType, Password


def error_message(setting, text):
    with pytest.raises(SettingError) as error:
        setting.parse(text)
    return str(error.value)


def between_1_and_9_or_minus_1(level):
    return None if level == -1 or 1 <= level <= 9 else "must be -1 or between 1 and 9"


@pytest.mark.parametrize(
    ("setting", "text", "message"),
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
            integer(
                "compression.gzip.level",
                default=-1,
                check=between_1_and_9_or_minus_1,
                doc="Effort.",
            ),
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
def test_error_message_names_the_key_the_value_and_the_rule(setting, text, message):
    assert error_message(setting, text) == message


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (
            integer(
                "compression.gzip.level",
                default=-1,
                check=between_1_and_9_or_minus_1,
                doc="Effort.",
            ),
            "9",
            9,
        ),
        (long("log.retention.bytes", default=-1, doc="Size."), "99999999999", 99999999999),
        (text_list("cleanup.policy", one_of={"compact", "delete"}, doc="What."), "", ()),
        (text("a", default="", doc="Text."), " b ", "b"),
        (password("a", default=None, doc="Secret."), "b", Password("b")),
    ],
)
def test_valid_value_is_accepted(setting, text, value):
    assert setting.parse(text) == value


@pytest.mark.parametrize(
    ("specifier", "kind"),
    [
        (boolean, ConfigType.BOOLEAN),
        (short, ConfigType.SHORT),
        (integer, ConfigType.INT),
        (long, ConfigType.LONG),
        (number, ConfigType.DOUBLE),
        (text, ConfigType.STRING),
        (class_name, ConfigType.CLASS),
        (text_list, ConfigType.LIST),
        (password, ConfigType.PASSWORD),
    ],
)
def test_each_specifier_has_its_config_type(specifier, kind):
    assert specifier("a", default=None, doc="Any.").type is kind


def test_choice_has_the_type_string():
    assert choice("a", ["b"], doc="One.").type is ConfigType.STRING


def test_invalid_default_is_rejected_at_declaration():
    with pytest.raises(SettingError, match="threads=0: must be at least 1"):
        integer("threads", default=0, at_least=1, doc="Wrong.")


@pytest.mark.parametrize("default", [None, value_of("elsewhere")])
def test_default_without_a_literal_value_is_not_checked(default):
    assert integer("a", default=default, at_least=1, doc="Any.").literal_default is None


def test_setting_is_read_only_by_default():
    assert integer("a", default=1, doc="Any.").update is UpdateMode.READ_ONLY


def test_secret_is_never_shown():
    setting = password("ssl.key.password", default=None, doc="Secret.")
    assert setting.sensitive
    assert setting.display_value(Password("hunter2")) is None


def test_setting_error_survives_pickling():
    copy = pickle.loads(pickle.dumps(SettingError("a.b", "0", "must be at least 1")))
    assert str(copy) == "a.b=0: must be at least 1"
    assert (copy.name, copy.rule) == ("a.b", "must be at least 1")
