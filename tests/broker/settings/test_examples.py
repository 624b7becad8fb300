"""The example files in config/ are correct, and docs/configuration.md has every table."""

import re
from pathlib import Path

import pytest

from odradek.broker.settings import reference
from odradek.broker.settings.consumer_groups import OneGroupSettings
from odradek.broker.settings.server_settings import SETTINGS_BY_NAME, TABLES, ServerSettings
from odradek.broker.settings.sources import load
from odradek.config import properties
from odradek.config.definition import ConfigSource
from odradek.storage.settings import TopicSettings

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "config").glob("*.properties"))
COMMENTED_OUT = re.compile(r"^#([a-z][a-z.A-Z]*)=(.*)$", re.MULTILINE)


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.name)
def example(request):
    return request.param


def test_examples_exist():
    assert {path.name for path in EXAMPLES} >= {"server.properties", "server-zookeeper.properties"}


def test_example_can_be_loaded_without_warnings(example, caplog):
    load(file=example, environment={}, overrides=())
    assert caplog.records == []


def test_commented_out_values_are_the_defaults(example):
    commented_out = COMMENTED_OUT.findall(example.read_text())
    assert commented_out
    for name, text in commented_out:
        assert (name, text) == (
            name,
            SETTINGS_BY_NAME[name].display_value(SETTINGS_BY_NAME[name].literal_default) or "",
        )


def test_no_setting_occurs_twice(example):
    assert properties.load(example).duplicates == {}
    commented_out = [name for name, _ in COMMENTED_OUT.findall(example.read_text())]
    assert len({*commented_out}) == len(commented_out)


def test_first_example_is_a_standalone_broker():
    texts = properties.load(ROOT / "config/server.properties").values
    assert ServerSettings.read({ConfigSource.FILE: texts}).uses_embedded_store


def test_configuration_page_has_every_table():
    assert {table for _, table in reference.SECTIONS} == {*TABLES, TopicSettings, OneGroupSettings}
