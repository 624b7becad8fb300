"""Settings tables rendered as Markdown and as a .properties file."""

from odradek.config.definition import (
    ConfigSource,
    Importance,
    UpdateMode,
    choice,
    integer,
    password,
    text,
    text_list,
    value_of,
)
from odradek.config.documentation import as_markdown, as_properties
from odradek.config.properties import parse
from odradek.config.settings import Settings
from odradek.config.types import Password


class Documented(Settings):
    threads: int = integer(
        "num.network.threads",
        default=1,
        at_least=1,
        update=UpdateMode.CLUSTER,
        importance=Importance.HIGH,
        doc="""Processors.
            Each owns its connections for life.""",
    )
    kind: str = choice("kind", ["a|b", "c"], default="c", doc="Which.")
    name: str = text("cluster.name", non_empty=True, doc="Nobody can guess it.")
    minutes: int = integer("minutes", default=value_of("hours", multiplier=60), doc="Age.")
    hours: int = integer("hours", default=168, doc="Age.")
    directory: str = text("log.dirs", default=value_of("cluster.name"), doc="Where.")
    policy: tuple[str, ...] = text_list("policy", default=(), one_of=("x", "y"), doc="How.")
    rack: str | None = text("broker.rack", default=None, doc="Where it stands.")
    secret: Password = password("secret", default=Password("hunter2"), doc="Change it.")


def test_markdown_has_a_row_for_each_setting():
    assert as_markdown(Documented).splitlines() == [
        "| Setting | Type | Default | Allowed | Update | Importance | Meaning |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| `num.network.threads` | int | `1` | at least 1 | cluster-wide | high "
        "| Processors. Each owns its connections for life. |",
        "| `kind` | string | `c` | one of a\\|b, c | read-only | medium | Which. |",
        "| `cluster.name` | string | required | not empty | read-only | medium "
        "| Nobody can guess it. |",
        "| `minutes` | int | `hours` times 60 |  | read-only | medium | Age. |",
        "| `hours` | int | `168` |  | read-only | medium | Age. |",
        "| `log.dirs` | string | `cluster.name` |  | read-only | medium | Where. |",
        "| `policy` | list | empty | any of x, y | read-only | medium | How. |",
        "| `broker.rack` | string | none |  | read-only | medium | Where it stands. |",
        "| `secret` | password | [hidden] |  | read-only | medium | Change it. |",
    ]


def test_properties_explain_each_setting_and_show_its_default():
    properties = as_properties(Documented)
    assert properties.startswith(
        "# Processors. Each owns its connections for life.\n"
        "# int; at least 1; cluster-wide\n"
        "#num.network.threads=1\n"
        "\n"
        "# Which.\n"
    )
    assert "# int; read-only; default: hours times 60\n#minutes=\n" in properties
    assert "# string; not empty; read-only; default: required\n#cluster.name=\n" in properties


def test_generated_properties_set_nothing():
    assert parse(as_properties(Documented)).values == {}


def test_uncommented_properties_set_the_defaults():
    lines = [line[1:] for line in as_properties(Documented).splitlines() if line.startswith("#")]
    texts = parse("\n".join(line for line in lines if not line.startswith(" "))).values
    non_empty = {name: text for name, text in texts.items() if text}
    assert Documented.read({ConfigSource.FILE: {**non_empty, "cluster.name": "a"}}) == Documented(
        name="a"
    )


def test_topic_setting_names_its_broker_synonym():
    class Topic(Settings, update=UpdateMode.TOPIC):
        size: int = integer("segment.bytes", default=9, synonym="log.segment.bytes", doc="Size.")

    row = "| `segment.bytes` | int | `9` (`log.segment.bytes`) |  | per-topic | medium | Size. |"
    assert as_markdown(Topic).splitlines()[2] == row
    assert "# int; per-topic; default: 9 (log.segment.bytes)\n" in as_properties(Topic)


def test_long_explanations_are_folded():
    class Wordy(Settings):
        words: str = text("words", default="", doc="word " * 60)

    properties = as_properties(Wordy)
    assert max(map(len, properties.splitlines())) <= 100
    assert properties.count("word ") > 50


def test_default_secret_is_not_printed():
    assert "hunter2" not in as_markdown(Documented) + as_properties(Documented)
