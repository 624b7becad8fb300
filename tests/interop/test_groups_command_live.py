"""``odradek groups`` on Apache Kafka 4.1: what it does on our broker, it does there.

The tests are those of tests/broker/cli, taken over with another broker; it is not the one that
others use, since all groups are deleted in it.
"""

import inspect
from dataclasses import dataclass

import pytest

from tests.broker.cli.groups import test_command as test_groups
from tests.broker.cli.groups import test_reset as test_groups_reset
from tests.support.apache_kafka import kraft_broker
from tests.support.command_line import CommandLine
from tests.support.group_readers import topic

__all__ = ["topic"]

FIXTURES = {"group", "reset", "begun"}


@dataclass(frozen=True, slots=True)
class Running:
    address: str


@pytest.fixture(scope="module")
def broker(kafka_41_jars, tmp_path_factory):
    with kraft_broker(tmp_path_factory.mktemp("kafka-4.1-groups")) as running:
        yield Running(running.bootstrap)


@pytest.fixture
def command(broker, capsys, monkeypatch):
    return CommandLine(capsys, monkeypatch, broker.address)


def taken_over(module, fixtures):
    """These, and the tests that speak to a broker."""
    return {
        name: each
        for name, each in vars(module).items()
        if name in fixtures
        or (name.startswith("test_") and "offline" not in inspect.signature(each).parameters)
    }


globals().update(taken_over(test_groups, FIXTURES) | taken_over(test_groups_reset, FIXTURES))
