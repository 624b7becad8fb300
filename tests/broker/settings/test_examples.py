"""The example files in config/ say what is true, and docs/configuration.md has every table."""

import re
from pathlib import Path

import pytest

from odradek.broker.settings import reference
from odradek.broker.settings.consumer_groups import OneGroupSettings
from odradek.broker.settings.server_settings import BY_NAME, TABLES, ServerSettings
from odradek.broker.settings.sources import load
from odradek.config import properties
from odradek.config.definition import Layer
from odradek.storage.settings import TopicSettings

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "config").glob("*.properties"))
COMMENTED_OUT = re.compile(r"^#([a-z][a-z.A-Z]*)=(.*)$", re.MULTILINE)


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.name)
def example(request):
    return request.param


def test_there_are_examples():
    assert {path.name for path in EXAMPLES} >= {"server.properties", "server-zookeeper.properties"}


def test_an_example_can_be_started_with(example, caplog):
    load(file=example, environment={}, overrides=())
    assert caplog.records == []


def test_what_is_commented_out_is_the_default(example):
    commented_out = COMMENTED_OUT.findall(example.read_text())
    assert commented_out
    for name, text in commented_out:
        assert (name, text) == (name, BY_NAME[name].shown(BY_NAME[name].plain_default) or "")


def test_no_name_is_given_twice(example):
    assert properties.load(example).duplicates == {}
    commented_out = [name for name, _ in COMMENTED_OUT.findall(example.read_text())]
    assert len({*commented_out}) == len(commented_out)


def test_the_first_example_is_one_broker_alone():
    texts = properties.load(ROOT / "config/server.properties").texts
    assert ServerSettings.read({Layer.FILE: texts}).is_alone


def test_the_page_has_every_table():
    assert {table for _, table in reference.SECTIONS} == {*TABLES, TopicSettings, OneGroupSettings}
