"""Fixtures for the command-line tests: one broker per module and metadata store."""

import pytest

from tests.support.broker_stores import broker
from tests.support.command_line import CommandLine

__all__ = ["broker", "command", "offline"]


@pytest.fixture
def command(broker, capsys, monkeypatch):
    return CommandLine(capsys, monkeypatch, broker.address)


@pytest.fixture
def offline(capsys, monkeypatch):
    return CommandLine(capsys, monkeypatch)
